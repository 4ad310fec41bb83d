"""Beam search against exhaustive search, and against greedy search."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.decoding.strategies import beam, greedy

SEEDS = pytest.mark.parametrize("seed", range(6))
PENALTIES = pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 1.7])


@SEEDS
@PENALTIES
def test_width_one_is_greedy(toys, seed, penalty):
    model, source, limits = toys.Recurrent(20, seed=seed), torch.randn(9, 8), [20, 7, 3, 0, 20, 20, 1, 20, 5]
    constraints = {"min_length": seed % 3, "no_repeat": seed % 2 * 2, "forbid": (5,) * (seed % 2)}
    narrow = toys.run(beam, model, source, limits=limits, width=1, length_penalty=penalty, **constraints)
    expected = toys.run(greedy, model, source, limits=limits, **constraints)
    assert [h[:2] for (h,) in narrow] == [h[:2] for (h,) in expected]


@SEEDS
@PENALTIES
def test_wide_enough_is_exhaustive(toys, seed, penalty):
    model, source, limits = toys.Recurrent(seed=seed), torch.randn(4, 8), [4, 3, 1, 0]
    width = 3**4 + 3**3 + 3**2 + 3 + 1  # all there are
    found = toys.run(beam, model, source, limits=limits, width=width, nbest=width, length_penalty=penalty)
    for i, limit in enumerate(limits):
        expected = toys.exhaustive(model, source[i : i + 1], limit=limit, penalty=penalty)
        assert len(found[i]) == len(expected)
        assert {h.tokens for h in found[i]} == {h.tokens for h in expected}
        for name in ("score", "rank_score"):
            assert [getattr(h, name) for h in found[i]] == pytest.approx([getattr(h, name) for h in expected], abs=1e-4)
        assert found[i][0].tokens == expected[0].tokens


def plain(toys, model, source, *, limit, width, penalty):
    """Beam search in words: lists of (sum, tokens), the whole prefix read again at each step, never stopping early."""
    running, ended = [(0.0, ())], []
    while running:
        grown = []
        for total, tokens in running:
            with torch.no_grad():
                logits, _ = model(torch.tensor([[toys.marks.start, *tokens]]), model.start(source))
            shares = logits[0, -1].log_softmax(-1).tolist()
            allowed = [toys.marks.end] if len(tokens) == limit else [1, *range(3, len(shares))]
            grown += [(total + shares[token], (*tokens, token)) for token in allowed]
        best = sorted(grown, reverse=True)[: width - len(ended)]
        ended += [candidate for candidate in best if candidate[1][-1] == toys.marks.end]
        running = [candidate for candidate in best if candidate[1][-1] != toys.marks.end]
    return [tokens[:-1] for total, tokens in sorted(ended, key=lambda pair: -pair[0] / len(pair[1]) ** penalty)]


@SEEDS
@pytest.mark.parametrize("width", [2, 3, 5])
def test_an_ended_hypothesis_keeps_its_place(toys, seed, width):
    model, source, limits = toys.Recurrent(9, seed=seed), torch.randn(4, 8), [8, 5, 8, 2]
    found = toys.run(beam, model, source, limits=limits, width=width, nbest=width)
    for i, limit in enumerate(limits):
        expected = plain(toys, model, source[i : i + 1], limit=limit, width=width, penalty=1.0)
        assert [h.tokens for h in found[i]] == expected


@SEEDS
@PENALTIES
@pytest.mark.parametrize("nbest", [1, 3])
def test_stopping_early_loses_nothing(toys, seed, penalty, nbest):
    # nbest = width never stops before the last hypothesis has ended.
    model, source, limits = toys.Recurrent(9, seed=seed), torch.randn(8, 8), [6, 6, 12, 12, 30, 30, 3, 2]
    patient = toys.run(beam, model, source, limits=limits, width=6, nbest=6, length_penalty=penalty)
    quick = toys.run(beam, model, source, limits=limits, width=6, nbest=nbest, length_penalty=penalty)
    assert [[h.tokens for h in hypotheses] for hypotheses in quick] == [
        [h.tokens for h in hypotheses[:nbest]] for hypotheses in patient
    ]


def test_stops_when_nothing_better_can_come(toys):
    model, steps = toys.Recurrent(9, seed=3), []
    model.register_forward_hook(lambda module, inputs, outputs: steps.append(len(inputs[0])))
    with torch.no_grad():
        model.readout.bias[toys.marks.end] += 60  # nearly certain to end at once
    toys.run(beam, model, torch.randn(2, 8), limits=[50, 50], width=4, length_penalty=0.0)
    assert steps == [2]


@SEEDS
def test_score_is_never_below_greedy(toys, seed):
    model, source = toys.Recurrent(seed=seed), torch.randn(5, 8)
    first = toys.run(greedy, model, source, limits=[4] * 5)
    found = toys.run(beam, model, source, limits=[4] * 5, width=121, length_penalty=0.0)
    assert all(h.score >= g.score - 1e-9 for (h,), (g,) in zip(found, first, strict=True))


@SEEDS
def test_hypotheses_differ_and_are_sorted(toys, seed):
    model, source = toys.Recurrent(30, seed=seed), torch.randn(7, 8)
    for hypotheses in toys.run(beam, model, source, limits=[12] * 7, width=8, nbest=8):
        assert len(hypotheses) == 8
        assert len({h.tokens for h in hypotheses}) == 8
        ranks = [h.rank_score for h in hypotheses]
        assert ranks == sorted(ranks, reverse=True)
        assert ranks == pytest.approx([h.score / (len(h.tokens) + 1) for h in hypotheses])


def test_a_width_beyond_the_vocabulary(toys):
    model, source = toys.Recurrent(), torch.randn(2, 8)
    for hypotheses in toys.run(beam, model, source, limits=[1, 6], width=40, nbest=40)[:1]:
        assert len(hypotheses) == 4  # nothing, and each of three tokens


@pytest.mark.parametrize("size", [6, 9, 40])
@pytest.mark.parametrize("width", [17, 40])
def test_wide_beams_where_all_tie(toys, size, width):
    """So many equal entries that they are sorted, in a vocabulary that may be smaller than the beam."""
    found = toys.run(beam, toys.Bigram(torch.zeros(size, size)), 3, limits=[3, 2, 3], width=width, nbest=width)
    letters = size - 3
    for hypotheses, limit in zip(found, [3, 2, 3], strict=True):
        assert len({h.tokens for h in hypotheses}) == len(hypotheses)
        assert len(hypotheses) == min(width, sum(letters**n for n in range(limit + 1)))
        ranks = [h.rank_score for h in hypotheses]
        assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("penalty", [30.0, 50.0])
def test_the_strongest_penalty_ranks_by_length(toys, penalty):
    model, source = toys.Recurrent(9), torch.randn(3, 8)
    for hypotheses in toys.run(beam, model, source, limits=[40] * 3, width=4, nbest=4, length_penalty=penalty):
        lengths = [len(h.tokens) for h in hypotheses]
        assert lengths == sorted(lengths, reverse=True) and len(lengths) == 4
        assert all(h.rank_score < 0 for h in hypotheses)


def test_rows_follow_the_hypotheses_that_are_left(toys):
    model, seen = toys.Recurrent(30, seed=2), []
    model.register_forward_hook(lambda module, inputs, outputs: seen.append(len(inputs[0])))
    toys.run(beam, model, torch.randn(6, 8), limits=[2, 2, 2, 2, 9, 9], width=3, nbest=3, min_length=9)
    assert seen == [6, 18, 18] + [6] * 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 0}, "width is 0; a beam is at least 1 wide"),
        ({"nbest": 0}, "nbest is 0; it must lie between 1 and width, which is 5"),
        ({"width": 3, "nbest": 4}, "nbest is 4; it must lie between 1 and width, which is 3"),
        ({"length_penalty": -0.5}, r"length_penalty is -0.5; it must lie between 0 \(none\) and 50"),
        ({"length_penalty": 1000}, r"length_penalty is 1000; it must lie between 0 \(none\) and 50"),
        ({"length_penalty": float("nan")}, r"length_penalty is nan; it must lie between 0 \(none\) and 50"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        beam.Config(**settings)
