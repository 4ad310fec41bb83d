"""What position schemes are asked to be, measured: unique, the same in every length, bounded, deterministic.

A scheme that adds something to the features is judged by what it adds. One that lives inside the score is judged by the
scores it gives: all words are made alike, so whatever tells two places apart comes from the scheme.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.scores import build as build_score
from regard.core.errors import ShapeError
from regard.core.registry import registered_names
from regard.layers.positions import build
from regard.layers.positions._base import PositionScheme
from regard.layers.positions.sinusoidal import sinusoids

DIM = 16
SHORT, MAX_LENGTH, BEYOND = 16, 64, 256  # a short sequence, the longest prepared for, and one that is longer still
TOLERANCE = 1e-4


class Requirements(NamedTuple):
    """What a scheme keeps."""

    unique: bool  # no two places of a sequence look alike
    equal_distance: bool  # from one place to the next is as far in a short sequence as in a long one
    bounded: bool  # takes input longer than was prepared for, and its numbers do not grow with the length
    deterministic: bool  # made twice, from different random numbers, it is the same


def measure_requirements(name: str) -> Requirements:
    """The four requirements, measured on a fresh scheme of that name."""
    scheme = _fresh(name, seed=1)
    short, long = _picture(scheme, SHORT), _picture(scheme, MAX_LENGTH)
    return Requirements(
        unique=bool(torch.pdist(long).min() > TOLERANCE),
        equal_distance=_close(_steps(short, SHORT), _steps(long, SHORT)),
        bounded=_is_bounded(scheme, long),
        deterministic=_close(_picture(_fresh(name, seed=2), MAX_LENGTH, seed=2), long),
    )


def all_requirements() -> dict[str, Requirements]:
    """The requirements of every scheme there is."""
    return {name: measure_requirements(name) for name in registered_names("regard.layers.positions")}


def dot_by_distance(dim: int, longest: int) -> Tensor:
    """(longest): the dot product of two sinusoidal encodings 0, 1, 2, … places apart. It does not matter where they
    stand: sin a sin b + cos a cos b = cos(a - b)."""
    places = sinusoids(torch.arange(longest), dim)
    return places @ places[0]


def _fresh(name: str, *, seed: int) -> PositionScheme:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(name, DIM, max_length=MAX_LENGTH)


@torch.no_grad()
def _picture(scheme: PositionScheme, length: int, *, seed: int = 0) -> Tensor:
    """(t n): a row of numbers for each place of a sequence of `length`, whatever kind of scheme it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # a scheme inside the score makes its own weights, one set a layer
        place = scheme.position_bias(heads=1, dim=DIM)
    if place is not None:
        alike = torch.linspace(0.5, 1.5, DIM).expand(1, 1, length, DIM)
        scores: Tensor = place.score(build_score("scaled_dot", DIM), alike, alike, 0)
        return scores[0, 0]  # (t s)
    added = scheme.encode_sequence(length)
    return torch.zeros(length, DIM) if added is None else added


def _steps(picture: Tensor, count: int) -> Tensor:
    """How far it is from each of the first `count` places to the next."""
    near = picture[:count, :count]
    steps: Tensor = torch.linalg.vector_norm(near[1:] - near[:-1], dim=1)
    return steps


def _is_bounded(scheme: PositionScheme, usual: Tensor) -> bool:
    try:
        beyond = _picture(scheme, BEYOND)
    except ShapeError:  # a table that ends
        return False
    return bool(beyond.abs().max() <= 2 * usual.abs().max())


def _close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, atol=TOLERANCE)
