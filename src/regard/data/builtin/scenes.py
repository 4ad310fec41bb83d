"""Generated scenes of coloured shapes, with a box per shape and captions whose words are aligned to regions.

A caption is "a small red circle above a large blue square", or in Korean "큰 파란 사각형 위에 있는 작은 빨간 원". Some
combinations of traits are held out for valid and for test: pairs of colour and shape, or triples of size, colour and
shape whose pair is in train in the other size. Every size, colour and shape is in all three splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError

Box = tuple[float, float, float, float]  # left, top, right, bottom, as fractions of the side
WordKind = Literal["article", "size", "colour", "shape", "relation"]
HeldOut = Literal["pairs", "triples"]
Trait = tuple[str, str, str]  # size, colour and shape
SIDE = 64  # pixels
CELLS = 3  # the scene is divided into 3 x 3 cells, with at most one shape each
JITTER = 0.15  # maximum offset of a shape from the center of its cell, in cells
SUPERSAMPLING = 3  # samples per pixel along each axis
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
PAPER_BRIGHTNESS = (15, 240)  # of the background, from dark to white
MIN_CONTRAST = 80  # of a shape against the background, in its most different channel: no white shape on white paper
SPLITS = ("train", "valid", "test")


class SceneObject(NamedTuple):
    """One shape of a scene."""

    size: str
    colour: str
    shape: str
    cell: tuple[int, int]  # row and column
    box: Box


class Word(NamedTuple):
    """A word of a caption and its region: the box of its object, or of both objects of a relation."""

    text: str
    kind: WordKind
    box: Box


class Scene(NamedTuple):
    """An image and its objects in reading order."""

    pixels: NDArray[np.uint8]  # (side side 3)
    objects: tuple[SceneObject, ...]

    def caption(self, language: Literal["en", "ko"] = "en") -> tuple[Word, ...]:
        """Describe the objects in reading order, each related to the next.

        There is only one order: the attention of Xu et al. 2015 queries with the state before the last word, so it
        could not know which of two objects that word describes.
        """
        describe = {"en": _english_caption, "ko": _korean_caption}[language]
        return tuple(describe(self.objects))


def split_of(size: str, colour: str, shape: str, held_out: HeldOut = "pairs") -> str:
    """Return the split of a combination of traits."""
    distance = list(SHAPES).index(shape) - list(COLOURS).index(colour)
    if held_out == "triples":
        distance += len(SHAPES) // len(SIZES) * list(SIZES).index(size)
    return {0: "test", 1: "valid"}.get(distance % len(SHAPES), "train")


def generate(
    split: str,
    count: int,
    *,
    seed: int = 1,
    side: int = SIDE,
    things: tuple[int, int] = (1, 3),
    held_out: HeldOut = "pairs",
) -> list[Scene]:
    """Generate `count` scenes with `things` (minimum, maximum) objects.

    Scenes of valid and test contain at least one held-out combination of traits.
    """
    minimum, maximum = things
    if not 1 <= minimum <= maximum <= CELLS**2:
        raise ConfigError(f"objects_per_scene={things}: give minimum and maximum, both in 1 … {CELLS**2}")
    if side < 8 * CELLS:
        raise ConfigError(f"side={side}: shapes need at least {8 * CELLS} pixels; give a larger side")
    rng = np.random.default_rng([seed, SPLITS.index(split)])
    split_traits, train_traits = trait_combinations(split, held_out), trait_combinations("train", held_out)
    counts = (int(rng.integers(minimum, maximum + 1)) for _ in range(count))
    return [
        _draw_scene(rng, _sample_traits(rng, split_traits, train_traits, num_objects), side=side)
        for num_objects in counts
    ]


@lru_cache(maxsize=2 * len(SPLITS))
def trait_combinations(split: str, held_out: HeldOut = "pairs") -> tuple[Trait, ...]:
    """Return the combinations of traits of a split."""
    return tuple(trait for trait in product(SIZES, COLOURS, SHAPES) if split_of(*trait, held_out) == split)


def _sample_traits(
    rng: np.random.Generator, split_traits: Sequence[Trait], train_traits: Sequence[Trait], count: int
) -> list[Trait]:
    """Sample `count` traits, the first of the split and the others of train; no two share colour and shape."""
    sampled = [split_traits[int(rng.integers(len(split_traits)))]]
    while len(sampled) < count:
        trait = train_traits[int(rng.integers(len(train_traits)))]
        if trait[1:] not in [previous[1:] for previous in sampled]:
            sampled.append(trait)
    return sampled


def _draw_scene(rng: np.random.Generator, traits: Sequence[Trait], *, side: int) -> Scene:
    count = len(traits)
    order = rng.permutation(count)
    cells = sorted(rng.choice(CELLS**2, count, replace=False).tolist())
    objects = [_place_object(rng, traits[index], cell) for index, cell in zip(order, cells, strict=True)]
    canvas = np.full((side, side, 3), _sample_paper(rng, traits), dtype=np.float32)
    canvas += rng.normal(0, 6, (side, side, 1)).astype(np.float32)
    for scene_object in objects:
        _draw_object(canvas, scene_object, COLOUR_RGB[scene_object.colour] + rng.normal(0, 10, 3))
    return Scene(canvas.clip(0, 255).astype(np.uint8), tuple(objects))


def _sample_paper(rng: np.random.Generator, traits: Sequence[Trait]) -> float:
    """Return a brightness of the background with which every shape has contrast."""
    colours = np.array([COLOUR_RGB[colour] for _, colour, _ in traits], dtype=np.float64)
    while True:
        paper = float(rng.uniform(*PAPER_BRIGHTNESS))
        if abs(colours - paper).max(axis=1).min() >= MIN_CONTRAST:
            return paper


def _place_object(rng: np.random.Generator, trait: Trait, cell: int) -> SceneObject:
    radius = rng.uniform(*RADII[trait[0]]) / CELLS
    row, column = divmod(cell, CELLS)
    max_offset = min(JITTER, 0.5 - radius * CELLS)
    y, x = ((index + 0.5 + rng.uniform(-max_offset, max_offset)) / CELLS for index in (row, column))
    return SceneObject(*trait, (row, column), (x - radius, y - radius, x + radius, y + radius))


def _draw_object(canvas: NDArray[np.float32], scene_object: SceneObject, colour: NDArray[np.float64]) -> None:
    """Draw a shape with anti-aliased edges on the canvas."""
    side = len(canvas)
    left, top, right, bottom = (edge * side for edge in scene_object.box)
    rows, columns = slice(int(top), int(np.ceil(bottom))), slice(int(left), int(np.ceil(right)))
    y = (np.arange(rows.start * SUPERSAMPLING, rows.stop * SUPERSAMPLING) + 0.5) / SUPERSAMPLING
    x = (np.arange(columns.start * SUPERSAMPLING, columns.stop * SUPERSAMPLING) + 0.5) / SUPERSAMPLING
    down, across = 2 * (y - top) / (bottom - top) - 1, 2 * (x - left) / (right - left) - 1
    inside = _inside_shape(scene_object.shape, across[None, :], down[:, None])
    samples = inside.reshape(rows.stop - rows.start, SUPERSAMPLING, columns.stop - columns.start, SUPERSAMPLING)
    coverage = samples.mean(axis=(1, 3))
    canvas[rows, columns] += coverage[..., None].astype(np.float32) * (colour - canvas[rows, columns])


def _inside_shape(shape: str, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return True inside a shape, in coordinates -1 … 1 to the right and down; shapes touch all four sides."""
    if shape in ("circle", "ring"):
        squared_radius = x**2 + y**2
        return (squared_radius <= 1) & (squared_radius >= (0.3 if shape == "ring" else 0))
    if shape == "triangle":
        return (abs(y) <= 1) & (2 * abs(x) <= 1 + y)
    if shape == "diamond":
        return abs(x) + abs(y) <= 1
    inside: NDArray[np.bool_] = (abs(x) <= 1) & (abs(y) <= 1)
    return inside & ((abs(x) <= 0.34) | (abs(y) <= 0.34)) if shape == "cross" else inside


def relation(first: SceneObject, second: SceneObject) -> str:
    """Return the relation of the first object to the second: by rows if they differ, else by columns."""
    if first.cell[0] != second.cell[0]:
        return "above" if first.cell[0] < second.cell[0] else "below"
    return "left of" if first.cell[1] < second.cell[1] else "right of"


def _trait_words(scene_object: SceneObject) -> list[Word]:
    kinds: tuple[WordKind, ...] = ("size", "colour", "shape")
    return [Word(text, kind, scene_object.box) for text, kind in zip(scene_object[:3], kinds, strict=True)]


def _relation_words(first: SceneObject, second: SceneObject, text: str) -> list[Word]:
    pairs = list(zip(first.box, second.box, strict=True))
    union = (min(pairs[0]), min(pairs[1]), max(pairs[2]), max(pairs[3]))
    return [Word(word, "relation", union) for word in text.split()]


def _english_caption(objects: Sequence[SceneObject]) -> list[Word]:
    words = [Word("a", "article", objects[0].box), *_trait_words(objects[0])]
    for first, second in pairwise(objects):
        words += _relation_words(first, second, relation(first, second))
        words += [Word("a", "article", second.box), *_trait_words(second)]
    return words


def _korean_caption(objects: Sequence[SceneObject]) -> list[Word]:
    """Describe the objects in the reverse order of English: [B 위에 있는] A."""
    words = _korean_trait_words(objects[-1])
    for first, second in reversed(list(pairwise(objects))):
        words += _relation_words(first, second, f"{KOREAN_WORDS[relation(first, second)]} 있는")
        words += _korean_trait_words(first)
    return words


def _korean_trait_words(scene_object: SceneObject) -> list[Word]:
    return [word._replace(text=KOREAN_WORDS[word.text]) for word in _trait_words(scene_object)]
