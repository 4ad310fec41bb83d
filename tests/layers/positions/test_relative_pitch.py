"""Relative pitch and time equal the sum over pairs, forward and backward, for any query positions."""

import pytest
import torch

from regard.attention.scores import build
from regard.attention.weigh import NoPositionBias
from regard.layers.positions._relative_pitch import RelativePitchTime

PITCHES, HEADS, DIM = 7, 2, 4


def build_intervals(voices: int, max_distance: int) -> RelativePitchTime:
    return RelativePitchTime(NoPositionBias(), HEADS, DIM, pitches=PITCHES, voices=voices, max_distance=max_distance)


def pairwise(bias: RelativePitchTime, q: torch.Tensor, k: torch.Tensor, first: int) -> torch.Tensor:
    """The definition, pair by pair."""
    rows = []
    max_distance = bias.time.shape[1] - 1
    for i in range(q.shape[2]):
        row = []
        for j in range(k.shape[2]):
            a, b = q[:, 0, i, -1].long(), k[:, 0, j, -1].long()
            interval = torch.where((a == 0) | (b == 0), 2 * PITCHES - 1, a - b + PITCHES - 1)
            steps = (first + i) // bias.voices - (j - 1) // bias.voices
            vectors = k[:, :, j, :-1] + bias.pitch[:, interval].transpose(0, 1)
            vectors = vectors + bias.time[:, max_distance - max(0, min(max_distance, steps))]
            row.append((q[:, :, i, :-1] * vectors).sum(-1) * DIM**-0.5)
        rows.append(torch.stack(row, dim=-1))
    return torch.stack(rows, dim=-2)


def with_notes(length: int) -> torch.Tensor:
    notes = torch.randint(0, PITCHES + 1, (3, 1, length, 1)).float().expand(3, HEADS, length, 1)
    return torch.cat([torch.randn(3, HEADS, length, DIM), notes], dim=-1)


@pytest.mark.parametrize("voices", [1, 3, 4])
@pytest.mark.parametrize("max_distance", [0, 2, 20])
@pytest.mark.parametrize(("t", "first"), [(9, 0), (1, 8), (1, 0), (4, 5), (3, 2)])
def test_equals_the_definition(voices, max_distance, t, first):
    bias, s = build_intervals(voices, max_distance), first + t
    q, k = with_notes(t), with_notes(s)
    actual = bias.score(build("scaled_dot", DIM), q, k, first)
    expected = pairwise(bias, q, k, first)
    torch.testing.assert_close(actual, expected)
    weight = torch.randn_like(actual)
    for gradient, expected_gradient in zip(
        torch.autograd.grad((actual * weight).sum(), [bias.pitch, bias.time]),
        torch.autograd.grad((expected * weight).sum(), [bias.pitch, bias.time]),
        strict=True,
    ):
        torch.testing.assert_close(gradient, expected_gradient)


def test_transposing_all_notes_changes_nothing():
    bias = build_intervals(4, 5)
    q = with_notes(6)
    q[..., -1] = q[..., -1].clamp(1, PITCHES - 1)
    higher = q.clone()
    higher[..., -1] += 1
    score = build("scaled_dot", DIM)
    torch.testing.assert_close(bias.score(score, q, q, 0), bias.score(score, higher, higher, 0))


@pytest.mark.parametrize("max_distance", [0, 2, 20])
@pytest.mark.parametrize(("t", "first"), [(9, 0), (1, 8), (4, 5)])
def test_each_row_may_start_at_a_different_column(max_distance, t, first):
    """The scores of a row equal those without the padding before it."""
    bias, s, score = build_intervals(3, max_distance), first + t, build("scaled_dot", DIM)
    q, k, starts = with_notes(t), with_notes(s), [0, min(2, first), min(4, first)]
    scores = bias.score(score, q, k, first, torch.tensor(starts))
    for row, start in enumerate(starts):
        alone = bias.score(score, q[row : row + 1], k[row : row + 1, :, start:], first - start)
        torch.testing.assert_close(scores[row : row + 1, :, :, start:], alone)
