"""Forbidden tokens, lengths and repetitions, for every decoder that has them."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.decoding.strategies import beam, greedy, sample
from regard.decoding.strategy import build

DECODERS = pytest.mark.parametrize(
    ("decoder", "settings"),
    [(greedy, {}), (beam, {"width": 4, "nbest": 4}), (sample, {"samples": 6})],
    ids=["greedy", "beam", "sample"],
)


def outputs(toys, decoder, *, size=9, limits, seed=0, **settings):
    """All hypotheses, and the tables they were made by."""
    model = toys.Recurrent(size, seed=seed)
    source = torch.randn(len(limits), 8)
    found = toys.run(decoder, model, source, limits=limits, **settings)
    for i, hypotheses in enumerate(found):
        for tokens, score, _ in hypotheses[:2]:
            assert score == pytest.approx(toys.teacher_forced(model, source[i : i + 1], tokens), abs=1e-4)
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]


@DECODERS
def test_lengths(toys, decoder, settings):
    for seed in range(5):
        limits = [3, 7, 4, 12]
        for limit, texts in zip(limits, outputs(toys, decoder, limits=limits, seed=seed, **settings), strict=True):
            assert all(len(tokens) <= limit for tokens in texts)
        for limit, texts in zip(
            limits, outputs(toys, decoder, limits=limits, seed=seed, min_length=6, **settings), strict=True
        ):
            assert all(min(6, limit) <= len(tokens) <= limit for tokens in texts)


@DECODERS
def test_an_empty_limit_gives_the_empty_output(toys, decoder, settings):
    for texts in outputs(toys, decoder, limits=[0, 0], min_length=2, **settings):
        assert set(texts) == {()}


@DECODERS
def test_forbidden_tokens_never_come(toys, decoder, settings):
    marks = toys.marks
    for seed in range(5):
        free = outputs(toys, decoder, limits=[9] * 4, seed=seed, min_length=9, **settings)
        met = {token for texts in free for tokens in texts for token in tokens}
        assert met.isdisjoint({marks.pad, marks.start, marks.end})
        assert met & {4, 6}
        found = outputs(toys, decoder, limits=[9] * 4, seed=seed, min_length=9, forbid=(4, 6), **settings)
        assert {token for texts in found for tokens in texts for token in tokens} <= {1, 5, 7, 8}


@DECODERS
def test_marks_never_come_even_if_the_model_wants_them(toys, decoder, settings):
    table = torch.zeros(6, 6)
    table[:, [toys.marks.pad, toys.marks.start]] = 9.0
    for hypotheses in toys.run(decoder, toys.Bigram(table), 3, limits=[5, 5, 5], **settings):
        assert all(token in (1, 4, 5) for tokens, _, _ in hypotheses for token in tokens)


@DECODERS
def test_with_the_end_forbidden_outputs_fill_their_limits(toys, decoder, settings):
    limits = [2, 5, 9]
    found = outputs(toys, decoder, limits=limits, forbid=(toys.marks.end,), **settings)
    assert [{len(tokens) for tokens in texts} for texts in found] == [{limit} for limit in limits]


@DECODERS
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_comes_twice(toys, decoder, settings, size):
    repeated = 0
    for seed in range(4):
        for off in (True, False):
            found = outputs(
                toys, decoder, limits=[15] * 4, seed=seed, min_length=15, no_repeat=0 if off else size, **settings
            )
            for tokens in (tokens for texts in found for tokens in texts):
                grams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
                if off:
                    repeated += len(set(grams)) < len(grams)
                else:
                    assert len(set(grams)) == len(grams)
    assert repeated  # so that the setting had something to do


@DECODERS
def test_where_nothing_is_allowed_the_output_ends(toys, decoder, settings):
    # Six tokens may come, none of them twice: after six, only the end is left, although it is asked for later.
    found = outputs(toys, decoder, limits=[20, 20], no_repeat=1, min_length=18, **settings)
    assert {len(tokens) for texts in found for tokens in texts} == {6}


@DECODERS
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"min_length": -1}, r"min_length is -1; it must be 0 or more"),
        ({"no_repeat": -2}, r"no_repeat is -2; it must be an n-gram size, or 0 to allow repetition"),
        ({"forbid": (4, -3)}, r"forbid holds -3; token numbers are 0 or more"),
    ],
)
def test_wrong_settings(decoder, settings, setting, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        decoder.Config(**settings, **setting)


@DECODERS
def test_forbidding_what_there_is_not(toys, decoder, settings):
    with pytest.raises(ConfigError, match=r"^forbid holds 70, but the vocabulary has 6 tokens: 0 to 5$"):
        toys.run(decoder, toys.Recurrent(), torch.randn(1, 8), limits=[3], forbid=(4, 70), **settings)


class Turns:
    """Even and odd tokens take turns, and nothing ends before four."""

    def allowed(self, history):
        tokens = torch.arange(20)
        may = (tokens % 2 == history.shape[1] % 2) & (tokens > 3)
        return (may | ((tokens == 3) & (history.shape[1] >= 4))).expand(len(history), -1)


@DECODERS
def test_a_grammar_is_kept_to(toys, decoder, settings):
    model, source = toys.Recurrent(20), torch.randn(3, 8)
    with torch.no_grad():
        state = model.start(source)
    limits, name = torch.tensor([9, 12, 5]), decoder.__name__.rpartition(".")[2]
    found = build(name, **settings)(model, state, marks=toys.marks, limits=limits, grammar=Turns())
    outputs = [h.tokens for hypotheses in found for h in hypotheses]
    assert len(set(outputs)) >= 2
    for tokens in outputs:
        assert len(tokens) >= 4
        assert [token % 2 for token in tokens] == [i % 2 for i in range(len(tokens))]
