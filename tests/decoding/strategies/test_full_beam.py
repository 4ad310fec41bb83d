"""A beam that stays full, against the same search in words, exhaustive search and greedy search."""

import pytest
import torch

from regard.decoding.strategies import beam, full_beam, greedy
from regard.decoding.strategy import build

SEEDS = pytest.mark.parametrize("seed", range(6))


def in_words(toys, model, source, *, limit, width, penalty):
    """Lists of (sum, tokens), the whole prefix read again at each step."""
    running, ended = [(0.0, ())], []

    def rank(candidate):
        return candidate[0] / len(candidate[1]) ** penalty

    while running:
        grown = []
        for total, tokens in running:
            with torch.no_grad():
                logits, _ = model(torch.tensor([[toys.marks.start, *tokens]]), model.start(source))
            shares = logits[0, -1].log_softmax(-1).tolist()
            allowed = [toys.marks.end] if len(tokens) == limit else [1, *range(3, len(shares))]
            grown += [(total + shares[token], (*tokens, token)) for token in allowed]
        best = sorted(grown, reverse=True)[: 2 * width]
        ended += [candidate for candidate in best[:width] if candidate[1][-1] == toys.marks.end]
        running = [candidate for candidate in best if candidate[1][-1] != toys.marks.end][:width]
        ended.sort(key=rank, reverse=True)
        if len(ended) >= width and running and rank(running[0]) <= rank(ended[width - 1]):
            break
    return [tokens[:-1] for _, tokens in ended]


@SEEDS
@pytest.mark.parametrize("width", [2, 3, 5])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_the_same_search_in_words(toys, seed, width, penalty):
    model, source, limits = toys.Recurrent(9, seed=seed), torch.randn(4, 8), [8, 5, 8, 2]
    found = toys.run(full_beam, model, source, limits=limits, width=width, nbest=width, length_penalty=penalty)
    for i, limit in enumerate(limits):
        expected = in_words(toys, model, source[i : i + 1], limit=limit, width=width, penalty=penalty)
        assert [h.tokens for h in found[i]] == expected[:width]


@SEEDS
def test_width_one_without_a_penalty_is_greedy_or_better(toys, seed):
    model, source, limits = toys.Recurrent(20, seed=seed), torch.randn(6, 8), [20, 7, 3, 0, 20, 1]
    narrow = toys.run(full_beam, model, source, limits=limits, width=1, length_penalty=0.0)
    straight = toys.run(greedy, model, source, limits=limits)
    assert all(one.score >= other.score - 1e-6 for (one,), (other,) in zip(narrow, straight, strict=True))


@SEEDS
def test_wide_enough_is_exhaustive(toys, seed):
    model, source = toys.Recurrent(seed=seed), torch.randn(2, 8)
    width = 3**3 + 3**2 + 3 + 1  # all there are
    found = toys.run(full_beam, model, source, limits=[3, 2], width=width, nbest=width)
    for i, limit in enumerate([3, 2]):
        expected = toys.exhaustive(model, source[i : i + 1], limit=limit, penalty=1.0)
        assert [h.tokens for h in found[i]][: len(expected)] == [h.tokens for h in expected]


def test_its_best_ranks_at_least_as_high_on_the_whole(toys):
    """Places that ended hypotheses leave are used: summed over sources, what is found ranks higher, never by little."""
    gains = []
    for seed in range(6):
        model, source, limits = toys.Recurrent(12, seed=seed), torch.randn(20, 8), [12] * 20
        ranks = [
            [hypotheses[0].rank_score for hypotheses in toys.run(decoder, model, source, limits=limits, width=3)]
            for decoder in (beam, full_beam)
        ]
        gains += [after - before for before, after in zip(*ranks, strict=True)]
    assert sum(gain > 1e-6 for gain in gains) > sum(gain < -1e-6 for gain in gains)


def test_the_best_of_it_are_asked_of_itself():
    assert build("full_beam", width=3).with_nbest(7).name == "full_beam"
    assert build("full_beam", width=3).with_nbest(7).config == beam.Config(beam_width=7, nbest=7)
