"""XLNet: prediction orders, both streams, padding, training and invalid settings."""

from dataclasses import replace

import pytest
import torch

from regard.attention.masks import Mask
from regard.attention.record import record
from regard.convert import weight_map
from regard.convert.architectures import xlnet as layout
from regard.core.data_specs import MaskedLMSpec, SpecialTokens
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.protocols.masked_lm import MaskedBatch
from regard.models import xlnet

SIZES = MaskedLMSpec(vocab_size=24, max_length=12, special_tokens=SpecialTokens(mask=23))
LENGTH = 7


def ordered(order, batch_size=2, seed=0):
    """Texts whose tokens are predicted in the given order; 0: visible to all."""
    tokens = torch.randint(4, 23, (batch_size, len(order)), generator=torch.Generator().manual_seed(seed))
    prediction_order = torch.tensor(order).expand(batch_size, -1)
    input_tokens = tokens.masked_fill(prediction_order > 0, 23)
    return MaskedBatch(
        input_tokens,
        tokens,
        torch.full((batch_size,), len(order)),
        prediction_order > 0,
        prediction_order,
        torch.zeros_like(tokens),
    )


@pytest.fixture
def model():
    torch.manual_seed(0)
    return xlnet.build(xlnet.TINY, SIZES).eval()


def gradients(model, batch):
    """(n t): dependence of each masked position of the first text on each of its tokens."""
    leaves = []

    def catch(module, inputs, output):
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    hook = model.encoder.embedding.table.register_forward_hook(catch)
    features = model(batch).features
    hook.remove()
    count, weights = (
        int(batch.prediction_mask[0].sum()),
        torch.randn(features.shape[1]),
    )  # the sum of normalized features is constant
    rows = [torch.autograd.grad(features[i] @ weights, leaves[0], retain_graph=True)[0][0] for i in range(count)]
    return torch.stack(rows).abs().sum(dim=-1)


@pytest.mark.parametrize("order", [[1, 2, 3, 4, 5, 6, 7], [3, 1, 2, 6, 7, 5, 4], [0, 2, 0, 1, 0, 0, 2]])
def test_a_prediction_depends_on_exactly_the_earlier_tokens(model, order):
    batch = ordered(order)
    dependence = gradients(model, batch)
    for row, position in zip(dependence, batch.prediction_mask[0].nonzero().flatten(), strict=True):
        earlier = batch.prediction_order[0] < batch.prediction_order[0, position]
        assert (row[~earlier] == 0).all()  # including itself: no target depends on itself
        assert (row[earlier] > 0).all()


def test_it_equals_the_model_of_transformers():
    """Random weights: both streams with segments, padding, and the memory of earlier text."""
    library = pytest.importorskip("transformers", reason="the extra huggingface is not installed")
    torch.manual_seed(0)
    reference = library.XLNetLMHeadModel(
        library.XLNetConfig(vocab_size=24, d_model=16, n_layer=2, n_head=2, d_inner=24, mem_len=100)
    ).eval()
    with torch.no_grad():
        for weight in reference.parameters():
            weight.normal_(std=0.3)
    reference.tie_weights()
    settings, _ = layout.settings_from_huggingface(reference)
    config = xlnet.Config(**settings)
    mappings = layout.weight_mappings(config, SIZES, reference.config)
    model = xlnet.build(config, SIZES).eval()
    weights = layout.finish(weight_map.from_huggingface(mappings, reference.state_dict()), reference)
    assert not model.load_state_dict(weights, strict=False).unexpected_keys
    tokens, lengths = torch.randint(4, 23, (2, 12)), torch.tensor([12, 7])
    segments = (torch.arange(12) > 6).long().expand(2, 12)
    visible = torch.arange(12) < lengths[:, None]
    with torch.no_grad():
        assert layout.difference(model, reference, SIZES, lambda _, x: x) < 1e-4
        features = model.encoder(Padded(tokens, lengths), segments)
        expected = reference.transformer(tokens, token_type_ids=segments, attention_mask=visible.float())
        torch.testing.assert_close(features[visible], expected.last_hidden_state[visible], atol=1e-4, rtol=1e-4)
        first, memory = model.encoder.forward_with_memory(Padded(tokens[:, :5], torch.tensor([5, 5])))
        second, _ = model.encoder.forward_with_memory(Padded(tokens[:, 5:], torch.tensor([7, 7])), memory=memory)
        before = reference.transformer(tokens[:, :5], use_mems=True)
        after = reference.transformer(tokens[:, 5:], mems=before.mems, use_mems=True)
    torch.testing.assert_close(first, before.last_hidden_state, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(second, after.last_hidden_state, atol=1e-4, rtol=1e-4)


def test_no_gradient_flows_into_the_memory(model):
    tokens, lengths = torch.randint(4, 23, (1, 6)), torch.tensor([3])
    _, memory = model.encoder.forward_with_memory(Padded(tokens[:, :3], lengths))
    assert [kv.length for kv in memory] == [3, 3] and not any(kv.keys.requires_grad for kv in memory)
    features, memory = model.encoder.forward_with_memory(Padded(tokens[:, 3:], lengths), memory=memory)
    assert features.requires_grad and memory[0].length == 6


def test_in_reading_order_it_is_a_causal_language_model(model):
    """The prediction after n tokens is the same whether the text ends there or continues, and however it continues."""
    batch = ordered(list(range(1, LENGTH + 1)), batch_size=1)
    features = model(batch).features  # (t d): the features of each next token
    for length in range(1, LENGTH + 1):
        part = MaskedBatch(*(x[:, :length] if x.dim() == 2 else x.clamp(max=length) for x in batch))
        torch.testing.assert_close(model(part).features, features[:length])
    changed = batch._replace(tokens=batch.tokens.index_fill(1, torch.tensor(LENGTH - 1), 4))
    torch.testing.assert_close(model(changed).features, features)


def test_the_content_stream_in_reading_order_equals_a_causal_mask(model):
    batch = ordered(list(range(1, LENGTH + 1)))
    order_mask = Mask.explicit(batch.prediction_order[:, None, :] <= batch.prediction_order[:, :, None])
    pairs = zip(
        model.encoder.content_kv(batch.tokens, order_mask, batch.segments),
        model.encoder.content_kv(batch.tokens, Mask.causal(), batch.segments),
        strict=True,
    )
    for kv, causal in pairs:
        torch.testing.assert_close(kv.k, causal.k)
        torch.testing.assert_close(kv.v, causal.v)


def test_positions_of_queries_equal_those_of_the_content_stream(model):
    """A query at a position gives the same output as the content stream's query at that position."""
    block = model.encoder.layers[0]
    x, positions = torch.randn(2, LENGTH, 16), torch.tensor([[5, 0, 3], [1, 6, 2]])
    segments = (torch.arange(LENGTH) > 3).long().expand(2, LENGTH)
    kv = block.self_attn.project_kv(x, extra=segments[..., None].float())
    content = block.self_attn(x, kv, extra=segments[..., None].float())
    rows = x.gather(1, positions[..., None].expand(-1, -1, 16))
    extra = torch.stack([positions, segments.gather(1, positions)], dim=-1).float()
    queried = model.queries[0](rows, xlnet.with_position_column(kv), extra=extra)
    torch.testing.assert_close(queried, content.gather(1, positions[..., None].expand(-1, -1, 16)))


def test_padding_has_no_effect(model):
    batch = ordered([0, 2, 0, 1, 0])
    wider = MaskedBatch(*(torch.nn.functional.pad(part, (0, 3)) if part.dim() == 2 else part for part in batch))
    torch.testing.assert_close(model(wider).features, model(batch).features)
    text = Padded(batch.tokens, batch.lengths)
    longer = Padded(torch.nn.functional.pad(batch.tokens, (0, 3)), batch.lengths)
    torch.testing.assert_close(model.encoder(longer)[:, :5], model.encoder(text))


def test_rows_may_have_different_counts_of_masked_tokens(model):
    first, second = ordered([0, 1, 0, 2], batch_size=1), ordered([1, 2, 3, 0], batch_size=1, seed=1)
    both = MaskedBatch(*(torch.cat(parts) for parts in zip(first, second, strict=True)))
    separate = torch.cat([model(first).features, model(second).features])
    torch.testing.assert_close(model(both).features, separate)


def test_both_streams_are_recorded(model):
    with record(model) as maps:
        model(ordered([0, 2, 0, 1, 0]))
    shapes = {name: (recorded.queries, tuple(recorded.weights.shape[2:])) for name, recorded in maps.items()}
    assert shapes["encoder.layers.0.self_attn"] == ("text", (5, 5))
    assert shapes["queries.1"] == ("gaps", (2, 5))


def test_every_parameter_gets_a_gradient_and_the_streams_share_weights():
    model = xlnet.build(xlnet.TINY, SIZES)
    batch = ordered([0, 2, 0, 1, 0])
    model.readout.loss(model(batch).features, batch.tokens[batch.prediction_mask]).backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"encoder", "unseen", "readout"}


def test_overfits_eight_texts():
    torch.manual_seed(0)
    model = xlnet.build(replace(xlnet.TINY, dropout=0.0), SIZES)
    batch = ordered([0, 0, 1, 0, 2, 0], batch_size=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        loss = model.readout.loss(model(batch).features, batch.tokens[batch.prediction_mask]) / 16
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            break
    assert loss.item() < 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers=0 must be at least 1"),
        ({"dim": 10, "heads": 4}, "dim=10 cannot be divided among heads=4, or is odd; choose an even multiple of 4"),
        ({"dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
    ],
)
def test_invalid_settings(change, message):
    with pytest.raises(ConfigError, match=message):
        xlnet.Config(**change)


def test_sentence_pairs_are_refused():
    with pytest.raises(ConfigError, match=r"xlnet does not support sentence pairs; set data.sentence_pairs='none'"):
        xlnet.build(xlnet.TINY, replace(SIZES, has_pairs=True))
