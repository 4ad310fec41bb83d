"""XLNet: prediction orders, both streams, padding, training and invalid settings."""

from dataclasses import replace

import pytest
import torch

from regard.attention.masks import Mask
from regard.attention.record import record
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
        model.encoder.content_kv(batch.tokens, order_mask),
        model.encoder.content_kv(batch.tokens, Mask.causal()),
        strict=True,
    )
    for kv, causal in pairs:
        torch.testing.assert_close(kv.k, causal.k)
        torch.testing.assert_close(kv.v, causal.v)


def test_positions_of_queries_equal_those_of_the_content_stream(model):
    """A query at a position gives the same output as the content stream's query at that position."""
    block = model.encoder.layers[0]
    x, positions = torch.randn(2, LENGTH, 16), torch.tensor([[5, 0, 3], [1, 6, 2]])
    kv = block.self_attn.project_kv(x)
    content = block.self_attn(x, kv)
    rows = x.gather(1, positions[..., None].expand(-1, -1, 16))
    queried = model.queries[0](rows, xlnet.with_position_column(kv), extra=positions[..., None])
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
        ({"max_distance": 0}, "max_distance=0 must be at least 1"),
        ({"dim": 10, "heads": 4}, "dim=10 cannot be divided among heads=4; choose a multiple of 4"),
        ({"dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
    ],
)
def test_invalid_settings(change, message):
    with pytest.raises(ConfigError, match=message):
        xlnet.Config(**change)


def test_sentence_pairs_are_refused():
    with pytest.raises(ConfigError, match=r"xlnet does not support sentence pairs; set data.sentence_pairs='none'"):
        xlnet.build(xlnet.TINY, replace(SIZES, has_pairs=True))
