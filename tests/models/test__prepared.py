"""The prepared model is the model: same states' laws, same outputs, to rounding."""

import pytest
import torch

from regard.attention.record import record
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.sizes import Marks, Text
from regard.core.tree import rows, select, select_sources, spread
from regard.decoding import beam, greedy
from regard.models import _blocks, _prepared, transformer
from regard.models._prepared import Prepared, PreparedState

SIZES = Text(source=19, target=19, longest=64, joint=True)


def build(**settings):
    torch.manual_seed(2)
    model = transformer.build(transformer.Config(layers=2, dim=16, hidden=32, heads=2, **settings), SIZES).eval()
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and "table" not in name:
            weight.data.mul_(1.5)  # far from uniform, so that nothing hangs on rounding
        elif weight.dim() == 1:
            torch.nn.init.normal_(weight, mean=1.0 if "norm" in name and "weight" in name else 0.0, std=0.2)
    return model


def padded(*lengths):
    torch.manual_seed(4)
    tokens = torch.randint(4, SIZES.source, (len(lengths), max(lengths)))
    found = torch.tensor(lengths)
    return Padded(tokens.where(torch.arange(max(lengths)) < found[:, None], 0), found)


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("position", ["sinusoidal", "learned", "none", "fraction"])
def test_logits_are_the_models_own(norm, position):
    model = build(norm=norm, position=position)
    fast = model.for_decoding()
    assert isinstance(fast, Prepared)
    source, tokens = padded(5, 17, 1), torch.randint(4, SIZES.target, (3, 20))
    state, fast_state = model.start(source), fast.start(source)
    assert isinstance(fast_state, PreparedState)
    for low, high in ((0, 1), (1, 4), (4, 20)):  # 20 is beyond the room of the first cache
        expected, state = model(tokens[:, low:high], state)
        found, fast_state = fast(tokens[:, low:high], fast_state)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("module", [greedy, beam])
def test_decoding_finds_the_same(module):
    model, source = build(), padded(5, 17, 1, 9)
    limits = torch.tensor([20, 12, 3, 0])
    plain, fast = (
        module.decode(one, one.start(source), marks=Marks(), limits=limits, config=module.Config())
        for one in (model, model.for_decoding())
    )
    assert [[h.tokens for h in found] for found in fast] == [[h.tokens for h in found] for found in plain]
    for ours, theirs in zip(fast, plain, strict=True):
        assert ours[0].score == pytest.approx(theirs[0].score, abs=1e-4)


def test_states_are_values():
    model, source = build(), padded(5, 7)
    fast = model.for_decoding()
    _, before = fast(torch.tensor([[2], [2]]), fast.start(source))
    first, _ = fast(torch.tensor([[5], [6]]), before)
    other, _ = fast(torch.tensor([[7], [8]]), before)  # writes behind `before` too
    again, _ = fast(torch.tensor([[5], [6]]), before)
    assert torch.equal(first, again) and not torch.allclose(first, other)


def test_rows_are_selected_as_in_the_model():
    model, source = build(), padded(5, 7)
    fast = model.for_decoding()
    states = [spread(one.start(source), 3) for one in (model, fast)]
    tokens = torch.randint(4, SIZES.target, (6, 4))
    for turn, order in enumerate(([2, 2, 0, 3, 5, 4], [1, 0, 2, 4, 4, 4])):
        steps = [one(tokens[:, turn : turn + 1], state)[1] for one, state in zip((model, fast), states, strict=True)]
        states = [select(state, torch.tensor(order)) for state in steps]
    assert rows(states[1]) == 6
    states = [select_sources(state, torch.tensor([1]), width=3) for state in states]
    found = [one(tokens[3:, 3:], state)[0] for one, state in zip((model, fast), states, strict=True)]
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_a_source_without_tokens_or_too_long_goes_to_the_model(monkeypatch):
    monkeypatch.setattr(_prepared, "SCORES", 2 * 199 * 199)
    model = build()
    assert isinstance(model.for_decoding().start(padded(199)), PreparedState)
    fast = model.for_decoding()
    for source in (Padded(torch.zeros(1, 3, dtype=torch.long), torch.tensor([0])), padded(200)):
        state = fast.start(source)
        assert not isinstance(state, PreparedState)
        tokens = torch.tensor([[2, 5, 6]])
        torch.testing.assert_close(fast(tokens, state)[0], model(tokens, model.start(source))[0])


def test_other_scores_and_watched_models_stay_as_they_are():
    assert build(position="rotary").for_decoding().__class__ is transformer.Transformer
    assert build(score="additive").for_decoding().__class__ is transformer.Transformer
    model = build()
    with record(model):
        assert model.for_decoding() is model
        model(torch.tensor([[2]]), model.start(padded(3)))


def test_eight_bits_are_close():
    model, source = build(), padded(5, 9)
    fast = model.for_decoding("int8")
    tokens = torch.randint(4, SIZES.target, (2, 6))
    found = fast(tokens, fast.start(source))[0].log_softmax(-1)
    expected = model(tokens, model.start(source))[0].log_softmax(-1)
    assert (found - expected).abs().mean() < 0.1 * expected.std()
    assert not torch.equal(found, expected)


def test_precision_that_cannot_be_had_is_an_error():
    with pytest.raises(ConfigError, match=r"precision=int8 needs scaled dot products.*leave the precision out"):
        build(position="rotary").for_decoding("int8")
    with pytest.raises(ConfigError, match="precision='int4' is not known; choose one of: float32, int8"):
        build().for_decoding("int4")


def test_it_is_in_the_models_mode():
    model = build()
    assert not model.for_decoding("int8").training  # or judging it would leave the model in training mode
    assert model.train().for_decoding().training


@pytest.fixture
def packing(monkeypatch):
    """Every matrix is packed, as wide ones are where the processor has wide vectors."""
    monkeypatch.setattr(_blocks, "WIDE", 1)
    monkeypatch.setattr(_blocks, "has_wide_vectors", torch.backends.mkldnn.is_available)
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch has no oneDNN")


@pytest.mark.parametrize("rows", [1, 2, _blocks.SEVERAL, 9])
def test_packed_matrices_are_the_same_model(packing, rows):
    model, source = build(), padded(*range(3, 3 + rows))
    fast = model.for_decoding()
    tokens = torch.randint(4, SIZES.target, (rows, 5))
    expected, found = model(tokens, model.start(source))[0], fast(tokens, fast.start(source))[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        fast.readout(fast.features(tokens, fast.start(source))[0]), expected, rtol=1e-4, atol=1e-5
    )


def test_products_of_many_rows_are_the_same(monkeypatch):
    model, source = build(), padded(5, 17, 1)
    expected = model(torch.full((3, 1), 2), model.start(source))[0]
    monkeypatch.setattr(_blocks, "is_large", lambda x, weight: torch.backends.mkldnn.is_available())
    fast = model.for_decoding()
    torch.testing.assert_close(fast(torch.full((3, 1), 2), fast.start(source))[0], expected, rtol=1e-4, atol=1e-5)
