"""GPT: parameter counts, decoding invariants, the optimized copy and invalid settings."""

import pytest
import torch

from regard.core.data_specs import LanguageSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.registry import registered_names
from regard.core.state_tree import concat_states, select
from regard.inspection import invariants
from regard.models import gpt

SIZES = LanguageSpec(vocab_size=23, max_length=12)


def source(batch_size):
    return Padded(torch.zeros(batch_size, 0, dtype=torch.long), torch.zeros(batch_size, dtype=torch.long))


def parameters(preset, sizes):
    with torch.device("meta"):
        model = gpt.build(gpt.PRESETS[preset], sizes)
    return sum(weight.numel() for weight in model.parameters())


def test_it_has_the_parameters_of_gpt2():
    assert parameters("gpt2", LanguageSpec(50257, max_length=1024)) == 124_439_808


def test_the_baby_preset_is_that_of_nano_gpt():
    # 10.65 M in nanoGPT, which has no biases and does not count the position table; ours has one row per position
    assert parameters("baby", LanguageSpec(65, max_length=256)) == 10_770_816


@pytest.mark.parametrize("position", registered_names("regard.layers.positions"))
def test_decoding_invariants(position):
    model = gpt.build(gpt.Config(layers=2, dim=16, heads=2, position=position), SIZES).eval()
    target = torch.randint(SIZES.special_tokens.first_regular_id, SIZES.vocab_size, (3, 8))
    inputs = invariants.DecoderInputs(source(3), target, SIZES.special_tokens)
    assert [result for result in invariants.check_decoder(model, inputs) if not result.passed] == []


def test_ngram_features_do_not_depend_on_the_chunks():
    model = gpt.build(gpt.Config(layers=1, dim=16, heads=2, ngrams=500), SIZES).eval()
    torch.nn.init.normal_(model.encoder.ngrams.table.weight)
    target = torch.randint(SIZES.special_tokens.first_regular_id, SIZES.vocab_size, (3, 8))
    inputs = invariants.DecoderInputs(source(3), target, SIZES.special_tokens)
    assert [result for result in invariants.check_decoder(model, inputs) if not result.passed] == []
    assert [result for result in invariants.check_decoder(model.for_decoding(), inputs) if not result.passed] == []


def test_the_optimized_model_gives_the_same_logits():
    model = gpt.build(gpt.TINY, SIZES).eval()
    optimized, tokens = model.for_decoding(), torch.randint(4, 23, (2, 9))
    with torch.no_grad():
        logits, state = model(tokens, model.start(source(2)))
        parts, fast = [], optimized.start(source(2))
        for chunk in tokens.split([4, 1, 1, 3], dim=1):
            part, fast = optimized(chunk, fast)
            parts.append(part)
    assert optimized is not model
    torch.testing.assert_close(torch.cat(parts, dim=1), logits)
    assert state.past[0].length == fast.past[0].length == 9


def test_texts_of_unequal_length_are_decoded_together():
    model = gpt.build(gpt.TINY, SIZES).eval().for_decoding()
    first, second, following = torch.randint(4, 23, (1, 6)), torch.randint(4, 23, (1, 3)), torch.tensor([[5], [7]])
    with torch.no_grad():
        states = [model(tokens, model.start(source(1)))[1] for tokens in (first, second)]
        together, _ = model(following, concat_states(*states))
        alone = [model(following[i : i + 1], state)[0] for i, state in enumerate(states)]
    torch.testing.assert_close(together, torch.cat(alone))


def test_the_state_is_reordered_by_rows():
    model = gpt.build(gpt.TINY, SIZES).eval()
    tokens = torch.randint(4, 23, (2, 4))
    with torch.no_grad():
        _, state = model(tokens, model.start(source(2)))
        swapped, _ = model(tokens[:, :1].flip(0), select(state, torch.tensor([1, 0])))
        straight, _ = model(tokens[:, :1], state)
    torch.testing.assert_close(swapped.flip(0), straight)


def test_the_encoder_reads_padded_texts_as_if_alone():
    encoder = gpt.build(gpt.TINY, SIZES).eval().encoder
    tokens = torch.randint(4, 23, (2, 7))
    padded = Padded(torch.cat([tokens[:1], torch.nn.functional.pad(tokens[1:, :4], (0, 3))]), torch.tensor([7, 4]))
    alone = encoder(Padded(tokens[1:, :4], torch.tensor([4])))
    torch.testing.assert_close(encoder(padded)[1:, :4], alone)


def test_embedding_and_readout_are_one_table():
    model = gpt.build(gpt.TINY, SIZES)
    assert model.readout.weight is model.encoder.embedding.table.weight


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers=0 must be at least 1"),
        ({"dim": 10, "heads": 4}, "dim=10 cannot be divided among heads=4; choose a multiple of 4"),
        ({"dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
        ({"attention_dropout": -0.1}, "attention_dropout=-0.1 must be at least 0 and below 1"),
    ],
)
def test_invalid_settings(change, message):
    with pytest.raises(ConfigError, match=message):
        gpt.Config(**change)
