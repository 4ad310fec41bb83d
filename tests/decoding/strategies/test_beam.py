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
    constraints = {"min_length": seed % 3, "no_repeat_ngram_size": seed % 2 * 2, "suppress_tokens": (5,) * (seed % 2)}
    narrow = toys.run(beam, model, source, limits=limits, beam_width=1, length_penalty=penalty, **constraints)
    expected = toys.run(greedy, model, source, limits=limits, **constraints)
    assert [h[:2] for (h,) in narrow] == [h[:2] for (h,) in expected]


@SEEDS
@PENALTIES
def test_wide_enough_is_exhaustive(toys, seed, penalty):
    model, source, limits = toys.Recurrent(seed=seed), torch.randn(4, 8), [4, 3, 1, 0]
    width = 3**4 + 3**3 + 3**2 + 3 + 1  # all possible outputs
    results = toys.run(beam, model, source, limits=limits, beam_width=width, nbest=width, length_penalty=penalty)
    for i, limit in enumerate(limits):
        expected = toys.exhaustive(model, source[i : i + 1], limit=limit, penalty=penalty)
        assert len(results[i]) == len(expected)
        assert {h.tokens for h in results[i]} == {h.tokens for h in expected}
        for name in ("score", "rank_score"):
            assert [getattr(h, name) for h in results[i]] == pytest.approx(
                [getattr(h, name) for h in expected], abs=1e-4
            )
        assert results[i][0].tokens == expected[0].tokens


def plain(toys, model, source, *, limit, width, penalty):
    """Reference beam search: lists of (sum, tokens), the complete prefix read again at each step, no early stopping."""
    growing, ended = [(0.0, ())], []
    while growing:
        grown = []
        for total, tokens in growing:
            with torch.no_grad():
                logits, _ = model(torch.tensor([[toys.special_tokens.bos, *tokens]]), model.start(source))
            log_probs = logits[0, -1].log_softmax(-1).tolist()
            allowed = [toys.special_tokens.eos] if len(tokens) == limit else [1, *range(3, len(log_probs))]
            grown += [(total + log_probs[token], (*tokens, token)) for token in allowed]
        best = sorted(grown, reverse=True)[: width - len(ended)]
        ended += [candidate for candidate in best if candidate[1][-1] == toys.special_tokens.eos]
        growing = [candidate for candidate in best if candidate[1][-1] != toys.special_tokens.eos]
    return [tokens[:-1] for total, tokens in sorted(ended, key=lambda pair: -pair[0] / len(pair[1]) ** penalty)]


@SEEDS
@pytest.mark.parametrize("width", [2, 3, 5])
def test_an_ended_hypothesis_keeps_its_slot(toys, seed, width):
    model, source, limits = toys.Recurrent(9, seed=seed), torch.randn(4, 8), [8, 5, 8, 2]
    results = toys.run(beam, model, source, limits=limits, beam_width=width, nbest=width)
    for i, limit in enumerate(limits):
        expected = plain(toys, model, source[i : i + 1], limit=limit, width=width, penalty=1.0)
        assert [h.tokens for h in results[i]] == expected


@SEEDS
@PENALTIES
@pytest.mark.parametrize("nbest", [1, 3])
def test_early_stopping_misses_no_better_hypothesis(toys, seed, penalty, nbest):
    # nbest = beam_width never stops before the last hypothesis has ended.
    model, source, limits = toys.Recurrent(9, seed=seed), torch.randn(8, 8), [6, 6, 12, 12, 30, 30, 3, 2]
    patient = toys.run(beam, model, source, limits=limits, beam_width=6, nbest=6, length_penalty=penalty)
    quick = toys.run(beam, model, source, limits=limits, beam_width=6, nbest=nbest, length_penalty=penalty)
    assert [[h.tokens for h in hypotheses] for hypotheses in quick] == [
        [h.tokens for h in hypotheses[:nbest]] for hypotheses in patient
    ]


def test_stops_when_nothing_better_can_come(toys):
    model, steps = toys.Recurrent(9, seed=3), []
    model.register_forward_hook(lambda module, inputs, outputs: steps.append(len(inputs[0])))
    with torch.no_grad():
        model.readout.bias[toys.special_tokens.eos] += 60  # EOS is nearly certain at the first step
    toys.run(beam, model, torch.randn(2, 8), limits=[50, 50], beam_width=4, length_penalty=0.0)
    assert steps == [2]


@SEEDS
def test_score_is_never_below_greedy(toys, seed):
    model, source = toys.Recurrent(seed=seed), torch.randn(5, 8)
    first = toys.run(greedy, model, source, limits=[4] * 5)
    results = toys.run(beam, model, source, limits=[4] * 5, beam_width=121, length_penalty=0.0)
    assert all(h.score >= g.score - 1e-9 for (h,), (g,) in zip(results, first, strict=True))


@SEEDS
def test_hypotheses_differ_and_are_sorted(toys, seed):
    model, source = toys.Recurrent(30, seed=seed), torch.randn(7, 8)
    for hypotheses in toys.run(beam, model, source, limits=[12] * 7, beam_width=8, nbest=8):
        assert len(hypotheses) == 8
        assert len({h.tokens for h in hypotheses}) == 8
        ranks = [h.rank_score for h in hypotheses]
        assert ranks == sorted(ranks, reverse=True)
        assert ranks == pytest.approx([h.score / (len(h.tokens) + 1) for h in hypotheses])


def test_a_width_beyond_the_vocabulary(toys):
    model, source = toys.Recurrent(), torch.randn(2, 8)
    for hypotheses in toys.run(beam, model, source, limits=[1, 6], beam_width=40, nbest=40)[:1]:
        assert len(hypotheses) == 4  # the empty output, and each of three tokens


@pytest.mark.parametrize("size", [6, 9, 40])
@pytest.mark.parametrize("width", [17, 40])
def test_wide_beams_where_all_tie(toys, size, width):
    """Many equal entries, which are sorted, in a vocabulary that may be smaller than the beam."""
    results = toys.run(beam, toys.Bigram(torch.zeros(size, size)), 3, limits=[3, 2, 3], beam_width=width, nbest=width)
    num_tokens = size - 3
    for hypotheses, limit in zip(results, [3, 2, 3], strict=True):
        assert len({h.tokens for h in hypotheses}) == len(hypotheses)
        assert len(hypotheses) == min(width, sum(num_tokens**n for n in range(limit + 1)))
        ranks = [h.rank_score for h in hypotheses]
        assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("penalty", [30.0, 50.0])
def test_the_strongest_penalty_ranks_by_length(toys, penalty):
    model, source = toys.Recurrent(9), torch.randn(3, 8)
    for hypotheses in toys.run(beam, model, source, limits=[40] * 3, beam_width=4, nbest=4, length_penalty=penalty):
        lengths = [len(h.tokens) for h in hypotheses]
        assert lengths == sorted(lengths, reverse=True) and len(lengths) == 4
        assert all(h.rank_score < 0 for h in hypotheses)


def test_the_batch_shrinks_with_the_hypotheses(toys):
    model, batch_sizes = toys.Recurrent(30, seed=2), []
    model.register_forward_hook(lambda module, inputs, outputs: batch_sizes.append(len(inputs[0])))
    toys.run(beam, model, torch.randn(6, 8), limits=[2, 2, 2, 2, 9, 9], beam_width=3, nbest=3, min_length=9)
    assert batch_sizes == [6, 18, 18] + [6] * 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam_width": 0}, "beam_width=0 must be at least 1"),
        ({"nbest": 0}, "nbest=0 must be at least 1"),
        ({"beam_width": 3, "nbest": 4}, "nbest=4 must be at most beam_width=3"),
        ({"length_penalty": -0.5}, r"length_penalty=-0.5 must be from 0 \(none\) to 50"),
        ({"length_penalty": 1000}, r"length_penalty=1000 must be from 0 \(none\) to 50"),
        ({"length_penalty": float("nan")}, r"length_penalty=nan must be from 0 \(none\) to 50"),
    ],
)
def test_invalid_settings(settings, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        beam.Config(**settings)
