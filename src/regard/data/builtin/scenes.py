"""Scenes made by code: coloured shapes in relation, with the box of each and captions whose words know their region.

"a small red circle above a large blue square", and in Korean "큰 파란 사각형 위에 있는 작은 빨간 원". Some kinds of
things are kept for valid and some for test: pairs of colour and shape, or triples of size, colour and shape, the pair
known from training in the other size. Every size, colour and shape is in all three splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError

Box = tuple[float, float, float, float]  # left, top, right, bottom, as shares of the side
WordKind = Literal["article", "size", "colour", "shape", "relation"]
HeldOut = Literal["pairs", "triples"]
Trait = tuple[str, str, str]  # size, colour and shape
SIDE = 64  # pixels
CELLS = 3  # the scene is divided in 3 x 3 cells, a shape in each at most
JITTER = 0.15  # of a cell, by which a shape may lie beside the cell's middle
SUPERSAMPLING = 3  # along each axis of a pixel: how much of it a shape covers
SHAPES = {
    "circle": "원",
    "square": "사각형",
    "triangle": "삼각형",
    "diamond": "마름모",
    "cross": "십자가",
    "ring": "고리",
}
COLOURS = {"red": "빨간", "green": "초록", "blue": "파란", "yellow": "노란", "purple": "보라", "white": "하얀"}
SIZES = {"small": "작은", "large": "큰"}
RELATIONS = {"above": "위에", "below": "아래에", "left of": "왼쪽에", "right of": "오른쪽에"}
KOREAN_WORDS = SHAPES | COLOURS | SIZES | RELATIONS
COLOUR_RGB = {
    "red": (225, 50, 45),
    "green": (50, 185, 75),
    "blue": (60, 95, 235),
    "yellow": (240, 215, 60),
    "purple": (165, 70, 205),
    "white": (240, 240, 240),
}
RADII = {"small": (0.22, 0.27), "large": (0.38, 0.44)}  # of a cell
SPLITS = ("train", "valid", "test")


class SceneObject(NamedTuple):
    """One shape of a scene."""

    size: str
    colour: str
    shape: str
    cell: tuple[int, int]  # row and column
    box: Box


class Word(NamedTuple):
    """A word of a caption and what it speaks of: the box of its thing, or of both where it relates two."""

    text: str
    kind: WordKind
    box: Box


class Scene(NamedTuple):
    """An image and what is in it, in reading order."""

    pixels: NDArray[np.uint8]  # (side side 3)
    objects: tuple[SceneObject, ...]

    def caption(self, language: Literal["en", "ko"] = "en") -> tuple[Word, ...]:
        """The things in reading order, each related to the next. One order alone: the attention of Xu et al. 2015 asks
        with the state before the last word, so it could not know which of two things that word has begun with."""
        write = {"en": _english, "ko": _korean}[language]
        return tuple(write(self.objects))


def split_of(size: str, colour: str, shape: str, held: HeldOut = "pairs") -> str:
    """The split that a kind of things is kept for."""
    distance = list(SHAPES).index(shape) - list(COLOURS).index(colour)
    if held == "triples":
        distance += len(SHAPES) // len(SIZES) * list(SIZES).index(size)
    return {0: "test", 1: "valid"}.get(distance % len(SHAPES), "train")


def generate(
    split: str,
    count: int,
    *,
    seed: int = 1,
    side: int = SIDE,
    things: tuple[int, int] = (1, 3),
    held: HeldOut = "pairs",
) -> list[Scene]:
    """`count` scenes with at least and at most so many things; of valid and test, one at least is of a kept kind."""
    least, most = things
    if not 1 <= least <= most <= CELLS**2:
        raise ConfigError(f"things={things}: a scene has 1 … {CELLS**2} things, the least not above the most")
    if side < 8 * CELLS:
        raise ConfigError(f"side={side}: shapes are told apart from {8 * CELLS} pixels on; give a larger side")
    random = np.random.default_rng([seed, SPLITS.index(split)])
    own, common = trait_combinations(split, held), trait_combinations("train", held)
    numbers = (int(random.integers(least, most + 1)) for _ in range(count))
    return [_scene(random, _chosen(random, own, common, number), side=side) for number in numbers]


@lru_cache(maxsize=2 * len(SPLITS))
def trait_combinations(split: str, held: HeldOut = "pairs") -> tuple[Trait, ...]:
    """The kinds of things that are kept for a split."""
    return tuple(kind for kind in product(SIZES, COLOURS, SHAPES) if split_of(*kind, held) == split)


def _chosen(random: np.random.Generator, own: Sequence[Trait], common: Sequence[Trait], number: int) -> list[Trait]:
    """So many kinds, the first of the split's own; no two have the same colour and shape."""
    chosen = [own[int(random.integers(len(own)))]]
    while len(chosen) < number:
        kind = common[int(random.integers(len(common)))]
        if kind[1:] not in [other[1:] for other in chosen]:
            chosen.append(kind)
    return chosen


def _scene(random: np.random.Generator, chosen: Sequence[Trait], *, side: int) -> Scene:
    number = len(chosen)
    order = random.permutation(number)
    cells = sorted(random.choice(CELLS**2, number, replace=False).tolist())
    things = [_thing(random, chosen[place], cell) for place, cell in zip(order, cells, strict=True)]
    paper = np.full((side, side, 3), random.uniform(15, 80), dtype=np.float32)
    paper += random.normal(0, 6, (side, side, 1)).astype(np.float32)
    for thing in things:
        _draw(paper, thing, COLOUR_RGB[thing.colour] + random.normal(0, 10, 3))
    return Scene(paper.clip(0, 255).astype(np.uint8), tuple(things))


def _thing(random: np.random.Generator, kind: Trait, cell: int) -> SceneObject:
    radius = random.uniform(*RADII[kind[0]]) / CELLS
    row, column = divmod(cell, CELLS)
    reach = min(JITTER, 0.5 - radius * CELLS)
    y, x = ((place + 0.5 + random.uniform(-reach, reach)) / CELLS for place in (row, column))
    return SceneObject(*kind, (row, column), (x - radius, y - radius, x + radius, y + radius))


def _draw(paper: NDArray[np.float32], thing: SceneObject, colour: NDArray[np.float64]) -> None:
    """Lay a shape on the paper, its edges smooth."""
    side = len(paper)
    left, top, right, bottom = (edge * side for edge in thing.box)
    rows, columns = slice(int(top), int(np.ceil(bottom))), slice(int(left), int(np.ceil(right)))
    y = (np.arange(rows.start * SUPERSAMPLING, rows.stop * SUPERSAMPLING) + 0.5) / SUPERSAMPLING
    x = (np.arange(columns.start * SUPERSAMPLING, columns.stop * SUPERSAMPLING) + 0.5) / SUPERSAMPLING
    down, across = 2 * (y - top) / (bottom - top) - 1, 2 * (x - left) / (right - left) - 1
    inside = _covers(thing.shape, across[None, :], down[:, None])
    cover = inside.reshape(rows.stop - rows.start, SUPERSAMPLING, columns.stop - columns.start, SUPERSAMPLING).mean(
        axis=(1, 3)
    )
    paper[rows, columns] += cover[..., None].astype(np.float32) * (colour - paper[rows, columns])


def _covers(shape: str, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where a shape is, in coordinates -1 … 1 to the right and down; every shape touches all four sides."""
    if shape in ("circle", "ring"):
        far = x**2 + y**2
        return (far <= 1) & (far >= (0.3 if shape == "ring" else 0))
    if shape == "triangle":
        return (abs(y) <= 1) & (2 * abs(x) <= 1 + y)
    if shape == "diamond":
        return abs(x) + abs(y) <= 1
    inside: NDArray[np.bool_] = (abs(x) <= 1) & (abs(y) <= 1)
    return inside & ((abs(x) <= 0.34) | (abs(y) <= 0.34)) if shape == "cross" else inside


def relation(first: SceneObject, second: SceneObject) -> str:
    """How the first lies to the second: by rows if they differ, else by columns."""
    if first.cell[0] != second.cell[0]:
        return "above" if first.cell[0] < second.cell[0] else "below"
    return "left of" if first.cell[1] < second.cell[1] else "right of"


def _named(thing: SceneObject) -> list[Word]:
    kinds: tuple[WordKind, ...] = ("size", "colour", "shape")
    return [Word(text, kind, thing.box) for text, kind in zip(thing[:3], kinds, strict=True)]


def _related(first: SceneObject, second: SceneObject, text: str) -> list[Word]:
    pairs = list(zip(first.box, second.box, strict=True))
    both = (min(pairs[0]), min(pairs[1]), max(pairs[2]), max(pairs[3]))
    return [Word(word, "relation", both) for word in text.split()]


def _english(chain: Sequence[SceneObject]) -> list[Word]:
    words = [Word("a", "article", chain[0].box), *_named(chain[0])]
    for first, second in pairwise(chain):
        words += [*_related(first, second, relation(first, second)), Word("a", "article", second.box), *_named(second)]
    return words


def _korean(chain: Sequence[SceneObject]) -> list[Word]:
    """What is said last in English comes first: [B 위에 있는] A."""
    words = _translated(chain[-1])
    for first, second in reversed(list(pairwise(chain))):
        words += _related(first, second, f"{KOREAN_WORDS[relation(first, second)]} 있는") + _translated(first)
    return words


def _translated(thing: SceneObject) -> list[Word]:
    return [word._replace(text=KOREAN_WORDS[word.text]) for word in _named(thing)]
