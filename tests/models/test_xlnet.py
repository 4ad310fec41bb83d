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


def ordered(turns, rows=2, seed=0):
    """Texts whose tokens are foretold in the given turns, 0: seen by all."""
    tokens = torch.randint(4, 23, (rows, len(turns)), generator=torch.Generator().manual_seed(seed))
    order = torch.tensor(turns).expand(rows, -1)
    covered = tokens.masked_fill(order > 0, 23)
    return MaskedBatch(covered, tokens, torch.full((rows,), len(turns)), order > 0, order, torch.zeros_like(tokens))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return xlnet.build(xlnet.TINY, SIZES).eval()


def gradients(model, given):
    """(n t): how much each gap of the first text depends on each of its tokens."""
    leaves = []

    def catch(module, inputs, output):
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    hook = model.encoder.embedding.table.register_forward_hook(catch)
    features = model(given).features
    hook.remove()
    count, weights = int(given.chosen[0].sum()), torch.randn(features.shape[1])  # a norm makes the plain sum constant
    rows = [torch.autograd.grad(features[i] @ weights, leaves[0], retain_graph=True)[0][0] for i in range(count)]
    return torch.stack(rows).abs().sum(dim=-1)


@pytest.mark.parametrize("turns", [[1, 2, 3, 4, 5, 6, 7], [3, 1, 2, 6, 7, 5, 4], [0, 2, 0, 1, 0, 0, 2]])
def test_a_gap_depends_on_exactly_the_tokens_with_an_earlier_turn(model, turns):
    given = ordered(turns)
    found = gradients(model, given)
    for row, place in zip(found, given.prediction_mask[0].nonzero().flatten(), strict=True):
        earlier = given.prediction_order[0] < given.prediction_order[0, place]
        assert (row[~earlier] == 0).all()  # itself among them: no target sees itself
        assert (row[earlier] > 0).all()


def test_in_reading_order_it_is_a_causal_language_model(model):
    """What follows n tokens is foretold alike whether the text ends there or goes on, and however it goes on."""
    given = ordered(list(range(1, LENGTH + 1)), rows=1)
    whole = model(given).features  # (t d): the features of each next token
    for length in range(1, LENGTH + 1):
        part = MaskedBatch(*(x[:, :length] if x.dim() == 2 else x.clamp(max=length) for x in given))
        torch.testing.assert_close(model(part).features, whole[:length])
    other = given._replace(tokens=given.tokens.index_fill(1, torch.tensor(LENGTH - 1), 4))
    torch.testing.assert_close(model(other).features, whole)


def test_the_content_stream_in_reading_order_is_the_blocks_with_a_causal_mask(model):
    given = ordered(list(range(1, LENGTH + 1)))
    turns = Mask.explicit(given.prediction_order[:, None, :] <= given.prediction_order[:, :, None])
    pairs = zip(
        model.encoder.memories(given.tokens, turns), model.encoder.memories(given.tokens, Mask.causal()), strict=True
    )
    for memory, causal in pairs:
        torch.testing.assert_close(memory.k, causal.k)
        torch.testing.assert_close(memory.v, causal.v)


def test_places_of_scattered_queries_are_those_of_the_content_stream(model):
    """A query at a place scores as the content stream's query at that place would."""
    block = model.encoder.layers[0]
    x, places = torch.randn(2, LENGTH, 16), torch.tensor([[5, 0, 3], [1, 6, 2]])
    memory = block.self_attn.memorize(x)
    whole = block.self_attn(x, memory)
    rows = x.gather(1, places[..., None].expand(-1, -1, 16))
    found = model.queries[0](rows, xlnet.with_position_column(memory), beside=places[..., None])
    torch.testing.assert_close(found, whole.gather(1, places[..., None].expand(-1, -1, 16)))


def test_padding_changes_nothing(model):
    given = ordered([0, 2, 0, 1, 0])
    wider = MaskedBatch(*(torch.nn.functional.pad(part, (0, 3)) if part.dim() == 2 else part for part in given))
    torch.testing.assert_close(model(wider).features, model(given).features)
    text = Padded(given.tokens, given.lengths)
    longer = Padded(torch.nn.functional.pad(given.tokens, (0, 3)), given.lengths)
    torch.testing.assert_close(model.encoder(longer)[:, :5], model.encoder(text))


def test_rows_may_have_different_numbers_of_gaps(model):
    first, second = ordered([0, 1, 0, 2], rows=1), ordered([1, 2, 3, 0], rows=1, seed=1)
    both = MaskedBatch(*(torch.cat(parts) for parts in zip(first, second, strict=True)))
    apart = torch.cat([model(first).features, model(second).features])
    torch.testing.assert_close(model(both).features, apart)


def test_both_streams_are_looked_at(model):
    with record(model) as maps:
        model(ordered([0, 2, 0, 1, 0]))
    shapes = {name: (found.queries, tuple(found.weights.shape[2:])) for name, found in maps.items()}
    assert shapes["encoder.layers.0.self_attn"] == ("text", (5, 5))
    assert shapes["queries.1"] == ("gaps", (2, 5))


def test_every_parameter_learns_and_weights_of_the_streams_are_the_same():
    model = xlnet.build(xlnet.TINY, SIZES)
    given = ordered([0, 2, 0, 1, 0])
    model.readout.loss(model(given).features, given.tokens[given.prediction_mask]).backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"encoder", "unseen", "readout"}


def test_it_overfits_eight_texts():
    torch.manual_seed(0)
    model = xlnet.build(replace(xlnet.TINY, dropout=0.0), SIZES)
    given = ordered([0, 0, 1, 0, 2, 0], rows=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        loss = model.readout.loss(model(given).features, given.tokens[given.prediction_mask]) / 16
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            break
    assert loss.item() < 0.1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reach": 0}, "layers, dim, heads, hidden and reach must be at least 1"),
        ({"dim": 10, "heads": 4}, "dim=10 cannot be divided among heads=4; choose a multiple of 4"),
        ({"dropout": 1.0}, "dropout=1.0 is not a probability below 1"),
    ],
)
def test_impossible_choices_are_refused(change, words):
    with pytest.raises(ConfigError, match=words):
        xlnet.Config(**change)


def test_pairs_are_refused():
    with pytest.raises(
        ConfigError, match=r"xlnet cannot tell whether two texts belong together; set data.sentence_pairs='none'"
    ):
        xlnet.build(xlnet.TINY, replace(SIZES, pairs=True))
