"""Constraints on tokens, lengths and repetitions, for every strategy that has them."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.decoding.strategies import beam, greedy, sample
from regard.decoding.strategy import build

DECODERS = pytest.mark.parametrize(
    ("decoder", "settings"),
    [(greedy, {}), (beam, {"beam_width": 4, "nbest": 4}), (sample, {"num_samples": 6})],
    ids=["greedy", "beam", "sample"],
)


def outputs(toys, decoder, *, size=9, limits, seed=0, **settings):
    """Return the tokens of all hypotheses; their scores are compared with teacher forcing."""
    model = toys.Recurrent(size, seed=seed)
    source = torch.randn(len(limits), 8)
    results = toys.run(decoder, model, source, limits=limits, **settings)
    for i, hypotheses in enumerate(results):
        for tokens, score, _ in hypotheses[:2]:
            assert score == pytest.approx(toys.teacher_forced(model, source[i : i + 1], tokens), abs=1e-4)
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in results]


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
def test_limit_zero_gives_the_empty_output(toys, decoder, settings):
    for texts in outputs(toys, decoder, limits=[0, 0], min_length=2, **settings):
        assert set(texts) == {()}


@DECODERS
def test_suppressed_tokens_are_never_generated(toys, decoder, settings):
    special_tokens = toys.special_tokens
    for seed in range(5):
        free = outputs(toys, decoder, limits=[9] * 4, seed=seed, min_length=9, **settings)
        generated = {token for texts in free for tokens in texts for token in tokens}
        assert generated.isdisjoint({special_tokens.pad, special_tokens.bos, special_tokens.eos})
        assert generated & {4, 6}
        results = outputs(toys, decoder, limits=[9] * 4, seed=seed, min_length=9, suppress_tokens=(4, 6), **settings)
        assert {token for texts in results for tokens in texts for token in tokens} <= {1, 5, 7, 8}


@DECODERS
def test_special_tokens_are_never_generated_even_if_most_likely(toys, decoder, settings):
    table = torch.zeros(6, 6)
    table[:, [toys.special_tokens.pad, toys.special_tokens.bos]] = 9.0
    for hypotheses in toys.run(decoder, toys.Bigram(table), 3, limits=[5, 5, 5], **settings):
        assert all(token in (1, 4, 5) for tokens, _, _ in hypotheses for token in tokens)


@DECODERS
def test_without_eos_outputs_reach_their_limits(toys, decoder, settings):
    limits = [2, 5, 9]
    results = outputs(toys, decoder, limits=limits, suppress_tokens=(toys.special_tokens.eos,), **settings)
    assert [{len(tokens) for tokens in texts} for texts in results] == [{limit} for limit in limits]


@DECODERS
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_is_repeated(toys, decoder, settings, size):
    repeated = 0
    for seed in range(4):
        for off in (True, False):
            results = outputs(
                toys,
                decoder,
                limits=[15] * 4,
                seed=seed,
                min_length=15,
                no_repeat_ngram_size=0 if off else size,
                **settings,
            )
            for tokens in (tokens for texts in results for tokens in texts):
                ngrams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
                if off:
                    repeated += len(set(ngrams)) < len(ngrams)
                else:
                    assert len(set(ngrams)) == len(ngrams)
    assert repeated  # so that the setting had an effect


@DECODERS
def test_the_output_ends_if_no_token_is_allowed(toys, decoder, settings):
    # Six tokens are allowed, each once: after six only EOS remains, although min_length is larger.
    results = outputs(toys, decoder, limits=[20, 20], no_repeat_ngram_size=1, min_length=18, **settings)
    assert {len(tokens) for texts in results for tokens in texts} == {6}


@DECODERS
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"min_length": -1}, "min_length=-1 must be at least 0"),
        ({"no_repeat_ngram_size": -2}, "no_repeat_ngram_size=-2 must be at least 0"),
        ({"suppress_tokens": (4, -3)}, "suppress_tokens contains -3; token ids must be at least 0"),
    ],
)
def test_invalid_settings(decoder, settings, setting, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        decoder.Config(**settings, **setting)


@DECODERS
def test_suppressed_token_outside_the_vocabulary(toys, decoder, settings):
    with pytest.raises(ConfigError, match=r"^suppress_tokens contains 70, but the vocabulary has 6 tokens: 0 to 5$"):
        toys.run(decoder, toys.Recurrent(), torch.randn(1, 8), limits=[3], suppress_tokens=(4, 70), **settings)


class Alternating:
    """Even and odd tokens alternate, and EOS is not allowed before four tokens."""

    def allowed(self, history):
        tokens = torch.arange(20)
        is_allowed = (tokens % 2 == history.shape[1] % 2) & (tokens > 3)
        return (is_allowed | ((tokens == 3) & (history.shape[1] >= 4))).expand(len(history), -1)


@DECODERS
def test_outputs_follow_the_grammar(toys, decoder, settings):
    model, source = toys.Recurrent(20), torch.randn(3, 8)
    with torch.no_grad():
        state = model.start(source)
    limits, name = torch.tensor([9, 12, 5]), decoder.__name__.rpartition(".")[2]
    results = build(name, **settings)(
        model, state, special_tokens=toys.special_tokens, limits=limits, grammar=Alternating()
    )
    outputs = [h.tokens for hypotheses in results for h in hypotheses]
    assert len(set(outputs)) >= 2
    for tokens in outputs:
        assert len(tokens) >= 4
        assert [token % 2 for token in tokens] == [i % 2 for i in range(len(tokens))]
