"""A model optimized for decoding has the same states and, up to rounding, the same outputs as the original."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu

from regard.attention.masks import Mask
from regard.attention.record import record
from regard.core.data_specs import LanguageSpec, MusicSpec, Seq2SeqSpec
from regard.core.errors import ConfigError, RegardError
from regard.core.protocols import Padded
from regard.core.registry import registered_names
from regard.core.state_tree import batch_size, concat_states, repeat_rows, select, select_sources
from regard.experiments import residual
from regard.layers import linear
from regard.layers.feedforward import FeedForward
from regard.layers.fuse_for_decoding import FastBlock, optimize_for_decoding
from regard.models import luong, music_transformer, transformer

SIZES = Seq2SeqSpec(source_vocab_size=19, target_vocab_size=19, max_length=64, joint_vocab=True)
NOTES = MusicSpec(num_conditions=19, vocab_size=19, max_length=64)
MODELS = [(transformer, {}), (transformer, {"norm": "post"}), (transformer, {"tie_embeddings": False})]
MODELS += [(transformer, {"position": name}) for name in registered_names("regard.layers.positions")]
MODELS += [(transformer, {"score": name}) for name in registered_names("regard.attention.scores")]
MODELS += [
    (music_transformer, {"intervals": flag, "position": name})
    for flag in (True, False)
    for name in ("relative", "rotary")
]


def build(module=transformer, **settings):
    torch.manual_seed(2)
    model = module.build(replace(module.TINY, **settings), NOTES if module is music_transformer else SIZES).eval()
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and "table" not in name:
            weight.data.mul_(1.5)  # far from uniform, so that rounding does not matter
        elif weight.dim() == 1:
            nn.init.normal_(weight, mean=1.0 if "norm" in name and "weight" in name else 0.0, std=0.2)
    return model


def padded(*lengths):
    torch.manual_seed(4)
    tokens = torch.randint(4, SIZES.source_vocab_size, (len(lengths), max(lengths)))
    counts = torch.tensor(lengths)
    return Padded(tokens.where(torch.arange(max(lengths)) < counts[:, None], 0), counts)


def assert_near(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize(("module", "settings"), MODELS, ids=str)
def test_logits_equal_the_models_for_any_chunks(module, settings):
    model = build(module, **settings)
    fast = model.for_decoding()
    assert any(isinstance(part, FastBlock) for part in fast.modules())
    source, tokens = padded(5, 17, 1), torch.randint(4, SIZES.target_vocab_size, (3, 20))
    state, fast_state = model.start(source), fast.start(source)
    for low, high in ((0, 1), (1, 4), (4, 4), (4, 5), (5, 20)):  # 20 exceeds the columns of the first cache
        expected, state = model(tokens[:, low:high], state)
        logits, fast_state = fast(tokens[:, low:high], fast_state)
        assert_near(logits, expected)


def test_states_are_interchangeable():
    model, source = build(), padded(5, 7)
    fast = model.for_decoding()
    tokens = torch.randint(4, SIZES.target_vocab_size, (2, 3))
    expected, _ = model(tokens, model.start(source))
    for first, second in ((model, fast), (fast, model)):
        _, state = first(tokens[:, :2], first.start(source))
        assert_near(second(tokens[:, 2:], state)[0], expected[:, 2:])


def test_states_are_immutable():
    model, source = build(), padded(5, 7)
    fast = model.for_decoding()
    _, before = fast(torch.tensor([[2], [2]]), fast.start(source))
    first, _ = fast(torch.tensor([[5], [6]]), before)
    different, _ = fast(torch.tensor([[7], [8]]), before)  # also extends `before`
    repeated, _ = fast(torch.tensor([[5], [6]]), before)
    assert torch.equal(first, repeated) and not torch.allclose(first, different)


def test_rows_are_selected_as_in_the_model():
    model, source = build(), padded(5, 7)
    fast = model.for_decoding()
    states = [repeat_rows(candidate.start(source), 3) for candidate in (model, fast)]
    tokens = torch.randint(4, SIZES.target_vocab_size, (6, 4))
    for step, order in enumerate(([2, 2, 0, 3, 5, 4], [1, 0, 2, 4, 4, 4])):
        next_states = [
            candidate(tokens[:, step : step + 1], state)[1]
            for candidate, state in zip((model, fast), states, strict=True)
        ]
        states = [select(state, torch.tensor(order)) for state in next_states]
    assert batch_size(states[1]) == 6
    states = [select_sources(state, torch.tensor([1]), width=3) for state in states]
    logits = [candidate(tokens[3:, 3:], state)[0] for candidate, state in zip((model, fast), states, strict=True)]
    assert_near(logits[1], logits[0])


def test_a_source_without_tokens():
    model, source = build(), Padded(torch.zeros(2, 3, dtype=torch.long), torch.tensor([0, 3]))
    fast, tokens = model.for_decoding(), torch.tensor([[2, 5, 6], [2, 7, 8]])
    assert_near(fast(tokens, fast.start(source))[0], model(tokens, model.start(source))[0])


def test_the_cache_is_extended_in_place_with_gradients_enabled():
    fast = build().for_decoding()
    with torch.enable_grad():
        logits, state = fast(torch.tensor([[2]]), fast.start(padded(3)))
        assert not logits.requires_grad and state.past[0].owner is not None


def test_another_activation():
    model = build()
    for part in model.modules():
        if isinstance(part, FeedForward):
            part.activation = gelu
    fast, source, tokens = model.for_decoding(), padded(5, 7), torch.randint(4, SIZES.target_vocab_size, (2, 3))
    assert_near(fast(tokens, fast.start(source))[0], model(tokens, model.start(source))[0])


def test_the_loss_of_the_readout_equals_the_models():
    model = build(music_transformer)
    features, labels = torch.randn(5, 16), torch.randint(0, 19, (5,))
    assert torch.equal(model.for_decoding().readout.loss(features, labels), model.readout.loss(features, labels))


def test_neither_model_changes_the_other():
    model = build().train()
    fast = model.for_decoding()
    assert model.training and not fast.training and all(part.training for part in model.modules())
    assert all(not weight.requires_grad for weight in fast.decoder.last.parameters())
    assert all(weight.requires_grad for weight in model.parameters())
    with record(model):
        model(torch.tensor([[2]]), model.start(padded(3)))
        assert model.for_decoding() is model  # it has hooks
    assert fast.for_decoding() is fast


def test_recording_the_fast_model_is_an_error():
    fast = build().for_decoding()
    with pytest.raises(RegardError, match="nothing was recorded; call the model itself"), record(fast):
        fast(torch.tensor([[2]]), fast.start(padded(3)))


def test_models_that_cannot_be_optimized_are_unchanged():
    recurrent, double = luong.build(luong.TINY, SIZES), build().double()
    assert optimize_for_decoding(recurrent) is recurrent
    assert double.for_decoding() is double


@pytest.mark.parametrize("module", [transformer, music_transformer])
def test_int8_is_close(module):
    model, source = build(module), padded(5, 9)
    fast = model.for_decoding("int8")
    tokens = torch.randint(4, SIZES.target_vocab_size, (2, 6))
    rounded = fast(tokens, fast.start(source))[0].log_softmax(-1)
    expected = model(tokens, model.start(source))[0].log_softmax(-1)
    assert (rounded - expected).abs().mean() < 0.1 * expected.std()
    assert not torch.equal(rounded, expected)


def test_unsupported_precision():
    with pytest.raises(
        ConfigError, match=r"precision=int8 needs a model of Transformer blocks.*leave the precision out"
    ):
        optimize_for_decoding(luong.build(luong.TINY, SIZES), "int8")
    with pytest.raises(ConfigError, match=r"precision=int8 needs .* float32 weights on a CPU"):
        build().double().for_decoding("int8")
    with pytest.raises(ConfigError, match="precision='int4' is unknown; choose one of: float32, int8"):
        build().for_decoding("int4")


@pytest.fixture
def packing(monkeypatch):
    """Pack every matrix, as for wide ones on processors with 512-bit vectors."""
    monkeypatch.setattr(linear, "MIN_PACKED_ELEMENTS", 1)
    monkeypatch.setattr(linear, "has_avx512", torch.backends.mkldnn.is_available)
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch has no oneDNN")


@pytest.mark.usefixtures("packing")
@pytest.mark.parametrize("count", [1, 2, linear.MIN_ONEDNN_ROWS, 9])
def test_packed_matrices_give_the_same_logits(count):
    model, source = build(), padded(*range(3, 3 + count))
    fast = model.for_decoding()
    tokens = torch.randint(4, SIZES.target_vocab_size, (count, 5))
    expected = model(tokens, model.start(source))[0]
    assert_near(fast(tokens, fast.start(source))[0], expected)
    assert_near(fast.readout(fast.features(tokens, fast.start(source))[0]), expected)


def test_products_of_many_rows_are_the_same(monkeypatch):
    monkeypatch.setattr(linear, "MIN_ONEDNN_WORK", 1)
    monkeypatch.setattr(linear, "has_avx512", torch.backends.mkldnn.is_available)
    model, source, tokens = build(), padded(5, 17, 1), torch.full((3, 1), 2)
    fast = model.for_decoding()
    assert_near(fast(tokens, fast.start(source))[0], model(tokens, model.start(source))[0])


@pytest.mark.parametrize("module", [transformer, music_transformer])
def test_merged_rows_continue_as_if_separate(module):
    model = build(module)
    fast = model.for_decoding()
    first, second = padded(5, 17), padded(9)
    tokens, other_tokens = torch.randint(4, 19, (2, 12)), torch.randint(4, 19, (1, 7))
    _, state = fast(tokens[:, :6], fast.start(first))
    _, other_state = fast(other_tokens[:, :1], fast.start(second))
    state = concat_states(state, other_state)
    for step in range(6):
        logits, state = fast(torch.cat([tokens[:, 6 + step], other_tokens[:, 1 + step]])[:, None], state)
        assert_near(logits[:2], model(tokens[:, : 7 + step], model.start(first))[0][:, -1:])
        assert_near(logits[2:], model(other_tokens[:, : 2 + step], model.start(second))[0][:, -1:])


def test_an_encoder_can_be_optimized():
    model = build()
    encoder, source = optimize_for_decoding(model.encoder), padded(5, 17, 1)
    mask = Mask.lengths(source.lengths)
    is_token = mask.keys
    assert_near(encoder(source.tokens, mask)[is_token], model.encoder(source.tokens, mask)[is_token])


@pytest.mark.parametrize("around", ["no residual", "no norm", "neither"])
def test_blocks_with_other_wrappers_give_the_same_logits(around):
    model = residual.build(residual.Config(around=around), LanguageSpec(vocab_size=19, max_length=64)).eval()
    fast, source, tokens = model.for_decoding(), padded(5, 7), torch.randint(4, 19, (2, 3))
    assert not any(isinstance(part, FastBlock) for part in fast.modules())
    logits, state = fast(tokens, fast.start(source))
    expected, expected_state = model(tokens, model.start(source))
    assert_near(logits, expected)
    assert_near(fast(tokens, state)[0], model(tokens, expected_state)[0])
