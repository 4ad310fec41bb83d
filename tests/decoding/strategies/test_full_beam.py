"""Beam search with a full beam, compared with a reference implementation, exhaustive search and greedy search."""

import pytest
import torch

from regard.decoding.strategies import beam, full_beam, greedy
from regard.decoding.strategy import build

SEEDS = pytest.mark.parametrize("seed", range(6))


def reference(toys, model, source, *, limit, width, penalty):
    """Lists of (sum, tokens), the complete prefix read again at each step."""
    growing, ended = [(0.0, ())], []

    def rank(candidate):
        return candidate[0] / len(candidate[1]) ** penalty

    while growing:
        grown = []
        for total, tokens in growing:
            with torch.no_grad():
                logits, _ = model(torch.tensor([[toys.special_tokens.bos, *tokens]]), model.start(source))
            log_probs = logits[0, -1].log_softmax(-1).tolist()
            allowed = [toys.special_tokens.eos] if len(tokens) == limit else [1, *range(3, len(log_probs))]
            grown += [(total + log_probs[token], (*tokens, token)) for token in allowed]
        best = sorted(grown, reverse=True)[: 2 * width]
        ended += [candidate for candidate in best[:width] if candidate[1][-1] == toys.special_tokens.eos]
        growing = [candidate for candidate in best if candidate[1][-1] != toys.special_tokens.eos][:width]
        ended.sort(key=rank, reverse=True)
        if len(ended) >= width and growing and rank(growing[0]) <= rank(ended[width - 1]):
            break
    return [tokens[:-1] for _, tokens in ended]


@SEEDS
@pytest.mark.parametrize("width", [2, 3, 5])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_equals_the_reference(toys, seed, width, penalty):
    model, source, limits = toys.Recurrent(9, seed=seed), torch.randn(4, 8), [8, 5, 8, 2]
    results = toys.run(full_beam, model, source, limits=limits, beam_width=width, nbest=width, length_penalty=penalty)
    for i, limit in enumerate(limits):
        expected = reference(toys, model, source[i : i + 1], limit=limit, width=width, penalty=penalty)
        assert [h.tokens for h in results[i]] == expected[:width]


@SEEDS
def test_width_one_without_a_penalty_is_greedy_or_better(toys, seed):
    model, source, limits = toys.Recurrent(20, seed=seed), torch.randn(6, 8), [20, 7, 3, 0, 20, 1]
    narrow = toys.run(full_beam, model, source, limits=limits, beam_width=1, length_penalty=0.0)
    expected = toys.run(greedy, model, source, limits=limits)
    assert all(
        hypothesis.score >= greedy_hypothesis.score - 1e-6
        for (hypothesis,), (greedy_hypothesis,) in zip(narrow, expected, strict=True)
    )


@SEEDS
def test_wide_enough_is_exhaustive(toys, seed):
    model, source = toys.Recurrent(seed=seed), torch.randn(2, 8)
    width = 3**3 + 3**2 + 3 + 1  # all possible outputs
    results = toys.run(full_beam, model, source, limits=[3, 2], beam_width=width, nbest=width)
    for i, limit in enumerate([3, 2]):
        expected = toys.exhaustive(model, source[i : i + 1], limit=limit, penalty=1.0)
        assert [h.tokens for h in results[i]][: len(expected)] == [h.tokens for h in expected]


def test_its_best_usually_ranks_at_least_as_high_as_that_of_beam(toys):
    """Freed slots are used: over all sources the best hypothesis ranks higher more often than lower."""
    gains = []
    for seed in range(6):
        model, source, limits = toys.Recurrent(12, seed=seed), torch.randn(20, 8), [12] * 20
        ranks = [
            [hypotheses[0].rank_score for hypotheses in toys.run(decoder, model, source, limits=limits, beam_width=3)]
            for decoder in (beam, full_beam)
        ]
        gains += [after - before for before, after in zip(*ranks, strict=True)]
    assert sum(gain > 1e-6 for gain in gains) > sum(gain < -1e-6 for gain in gains)


def test_n_best_uses_the_same_strategy():
    assert build("full_beam", beam_width=3).with_nbest(7).name == "full_beam"
    assert build("full_beam", beam_width=3).with_nbest(7).config == beam.Config(beam_width=7, nbest=7)
