"""Relative pitch and time equal the plain sum over pairs, forward and backward, wherever the queries stand."""

import pytest
import torch

from regard.attention.scores import build
from regard.attention.weigh import NoPositionBias
from regard.layers.positions._relative_pitch import RelativePitchTime

PITCHES, HEADS, DIM = 7, 2, 4


def build_intervals(voices: int, reach: int) -> RelativePitchTime:
    return RelativePitchTime(NoPositionBias(), HEADS, DIM, pitches=PITCHES, voices=voices, max_distance=reach)


def pairwise(inside: RelativePitchTime, q: torch.Tensor, k: torch.Tensor, first: int) -> torch.Tensor:
    """The definition, pair by pair."""
    rows = []
    reach = inside.time.shape[1] - 1
    for i in range(q.shape[2]):
        row = []
        for j in range(k.shape[2]):
            a, b = q[:, 0, i, -1].long(), k[:, 0, j, -1].long()
            interval = torch.where((a == 0) | (b == 0), 2 * PITCHES - 1, a - b + PITCHES - 1)
            steps = (first + i) // inside.voices - (j - 1) // inside.voices
            vectors = k[:, :, j, :-1] + inside.pitch[:, interval].transpose(0, 1)
            vectors = vectors + inside.time[:, reach - max(0, min(reach, steps))]
            row.append((q[:, :, i, :-1] * vectors).sum(-1) * DIM**-0.5)
        rows.append(torch.stack(row, dim=-1))
    return torch.stack(rows, dim=-2)


def noted(length: int) -> torch.Tensor:
    notes = torch.randint(0, PITCHES + 1, (3, 1, length, 1)).float().expand(3, HEADS, length, 1)
    return torch.cat([torch.randn(3, HEADS, length, DIM), notes], dim=-1)


@pytest.mark.parametrize("voices", [1, 3, 4])
@pytest.mark.parametrize("reach", [0, 2, 20])
@pytest.mark.parametrize(("t", "first"), [(9, 0), (1, 8), (1, 0), (4, 5), (3, 2)])
def test_equals_the_definition(voices, reach, t, first):
    inside, s = build_intervals(voices, reach), first + t
    q, k = noted(t), noted(s)
    found = inside.score(build("scaled_dot", DIM), q, k, first)
    expected = pairwise(inside, q, k, first)
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(found)
    for one, other in zip(
        torch.autograd.grad((found * weight).sum(), [inside.pitch, inside.time]),
        torch.autograd.grad((expected * weight).sum(), [inside.pitch, inside.time]),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_transposing_all_notes_changes_nothing():
    inside = build_intervals(4, 5)
    q = noted(6)
    q[..., -1] = q[..., -1].clamp(1, PITCHES - 1)
    higher = q.clone()
    higher[..., -1] += 1
    score = build("scaled_dot", DIM)
    torch.testing.assert_close(inside.score(score, q, q, 0), inside.score(score, higher, higher, 0))


@pytest.mark.parametrize("reach", [0, 2, 20])
@pytest.mark.parametrize(("t", "first"), [(9, 0), (1, 8), (4, 5)])
def test_each_row_may_begin_at_a_column_of_its_own(reach, t, first):
    """The scores of a row's own columns are those without the padding before them."""
    inside, s, score = build_intervals(3, reach), first + t, build("scaled_dot", DIM)
    q, k, starts = noted(t), noted(s), [0, min(2, first), min(4, first)]
    scores = inside.score(score, q, k, first, torch.tensor(starts))
    for row, start in enumerate(starts):
        alone = inside.score(score, q[row : row + 1], k[row : row + 1, :, start:], first - start)
        torch.testing.assert_close(scores[row : row + 1, :, :, start:], alone)
