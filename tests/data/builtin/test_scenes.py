"""Scenes: boxes enclose their shapes, words have regions, and held-out traits are in one split only."""

from itertools import product

import numpy as np
import pytest

from regard.core.errors import ConfigError
from regard.data.builtin.scenes import (
    COLOUR_RGB,
    COLOURS,
    KOREAN_WORDS,
    MIN_CONTRAST,
    SHAPES,
    SIZES,
    Scene,
    SceneObject,
    generate,
    relation,
    split_of,
    trait_combinations,
)


def text(caption):
    return " ".join(word.text for word in caption)


def make_object(size, colour, shape, cell):
    return SceneObject(size, colour, shape, cell, (cell[1] / 3, cell[0] / 3, (cell[1] + 1) / 3, (cell[0] + 1) / 3))


TWO = (make_object("small", "red", "circle", (0, 2)), make_object("large", "blue", "square", (1, 0)))


def test_captions_in_both_languages():
    scene = Scene(np.zeros((64, 64, 3), np.uint8), TWO)
    assert text(scene.caption("en")) == "a small red circle above a large blue square"
    assert text(scene.caption("ko")) == "큰 파란 사각형 위에 있는 작은 빨간 원"
    swapped = Scene(scene.pixels, TWO[::-1])
    assert text(swapped.caption("en")) == "a large blue square below a small red circle"
    assert text(swapped.caption("ko")) == "작은 빨간 원 아래에 있는 큰 파란 사각형"


def test_one_and_three_objects():
    three = (*TWO, make_object("small", "white", "ring", (1, 2)))
    assert text(Scene(np.zeros(0), three[:1]).caption()) == "a small red circle"
    scene = Scene(np.zeros(0), three)
    assert text(scene.caption()) == "a small red circle above a large blue square left of a small white ring"
    assert text(scene.caption("ko")) == "작은 하얀 고리 왼쪽에 있는 큰 파란 사각형 위에 있는 작은 빨간 원"


def test_every_word_has_its_region():
    scene = Scene(np.zeros(0), TWO)
    for language in ("en", "ko"):
        for word in scene.caption(language):
            names = [t for t in TWO if word.text in {*t[:3], *(KOREAN_WORDS[name] for name in t[:3])}]
            if word.kind in ("size", "colour", "shape"):
                assert [t.box for t in names] == [word.box]
            elif word.kind == "relation":
                assert word.box == (0, 0, 1, 2 / 3)
            else:
                assert word.box in [t.box for t in TWO]


@pytest.mark.parametrize("held", ["pairs", "triples"])
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_scenes_combine_traits_of_their_split_and_of_train(split, held):
    split_traits = set(trait_combinations(split, held))
    for scene in generate(split, 200, held_out=held):
        traits = [item[:3] for item in scene.objects]
        assert len({trait[1:] for trait in traits}) == len(traits) and 1 <= len(traits) <= 3
        assert split_traits & set(traits) and set(traits) <= split_traits | set(trait_combinations("train", held))


@pytest.mark.parametrize("held", ["pairs", "triples"])
def test_every_size_colour_and_shape_is_in_every_split(held):
    for split in ("train", "valid", "test"):
        sizes, colours, shapes = (set(values) for values in zip(*trait_combinations(split, held), strict=True))
        assert (sizes, colours, shapes) == (set(SIZES), set(COLOURS), set(SHAPES))
    assert split_of("small", "red", "circle", held) == "test" and split_of("small", "red", "square", held) == "valid"


def test_pairs_of_held_out_triples_are_in_train_in_the_other_size():
    pairs = {split: {kind[1:] for kind in trait_combinations(split, "triples")} for split in ("train", "valid", "test")}
    assert pairs["train"] == set(product(COLOURS, SHAPES)) and not pairs["valid"] & pairs["test"]
    held_out_pairs = {
        split: {kind[1:] for kind in trait_combinations(split, "pairs")} for split in ("train", "valid", "test")
    }
    assert not held_out_pairs["train"] & (held_out_pairs["valid"] | held_out_pairs["test"])


def test_boxes_enclose_their_shapes_tightly():
    """Pixels that differ from the background are inside the boxes, and touch each side of them."""
    for scene in generate("train", 60, side=96):
        background = np.median(scene.pixels.reshape(-1, 3), axis=0)
        drawn = np.abs(scene.pixels.astype(float) - background).max(axis=2) > 33  # 5.5 deviations of the noise
        rest = drawn.copy()
        for item in scene.objects:
            left, top, right, bottom = (edge * 96 for edge in item.box)
            rows, columns = slice(int(top), int(np.ceil(bottom))), slice(int(left), int(np.ceil(right)))
            assert drawn[rows, columns].any(axis=1)[1:-1].all() and drawn[rows, columns].any(axis=0)[1:-1].all()
            rest[rows, columns] = False
        assert not rest.any()


def test_colours_match_their_names():
    for scene in generate("test", 40):
        for item in scene.objects:
            if item.shape in ("circle", "square", "diamond", "cross"):
                x, y = (item.box[0] + item.box[2]) / 2, (item.box[1] + item.box[3]) / 2
                pixel = scene.pixels[int(y * 64), int(x * 64)].astype(int)
                nearest = min(COLOUR_RGB, key=lambda name: np.abs(pixel - COLOUR_RGB[name]).sum())
                assert nearest == item.colour


def test_reading_order_and_relations():
    for scene in generate("train", 50, things=(2, 4)):
        assert list(scene.objects) == sorted(scene.objects, key=lambda item: item.cell)
        for first, second in zip(scene.objects, scene.objects[1:], strict=False):
            middle = [((t.box[0] + t.box[2]) / 2, (t.box[1] + t.box[3]) / 2) for t in (first, second)]
            if relation(first, second) == "above":
                assert middle[0][1] < middle[1][1]
            else:
                assert relation(first, second) == "left of" and middle[0][0] < middle[1][0]


def test_scenes_depend_on_the_seed():
    first, same, different = (generate("train", 3, seed=seed) for seed in (1, 1, 2))
    assert all((a.pixels == b.pixels).all() and a.objects == b.objects for a, b in zip(first, same, strict=True))
    assert any(a.objects != b.objects for a, b in zip(first, different, strict=True))


def test_invalid_sizes_are_refused():
    with pytest.raises(ConfigError, match=r"^objects_per_scene=\(0, 3\): give minimum and maximum, both in 1 … 9$"):
        generate("train", 1, things=(0, 3))
    with pytest.raises(ConfigError, match=r"^side=10: shapes need at least 24 pixels; give a larger side$"):
        generate("train", 1, side=10)


def test_the_paper_is_dark_to_white_and_every_shape_has_contrast():
    generated = generate("train", 200, side=24)
    papers = [float(np.median(scene.pixels)) for scene in generated]
    assert min(papers) < 40 and max(papers) > 215
    white = [
        paper for scene, paper in zip(generated, papers, strict=True) if "white" in {o.colour for o in scene.objects}
    ]
    assert white and max(white) < 240 - MIN_CONTRAST + 10
