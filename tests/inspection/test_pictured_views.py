"""Image views: a pixel with its block and heads, patches with rollout and removal, boxes with their queries."""

from __future__ import annotations

import numpy as np
import pytest
from browser import opened

from regard.core.inspectable import Axis, Item, Output, Token
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import Inspection, Map, to_json

SIDE = 4  # pixels, patches or cells along a side
COUNT = SIDE**2
RANDOM = np.random.default_rng(3)
PICTURE = {"height": SIDE, "width": SIDE, "pixels": RANDOM.integers(0, 255, (COUNT, 1)).tolist()}


def grid(side=SIDE):
    return tuple(
        Item(f"{i // side},{i % side}", box=tuple(x / side for x in (i % side, i // side, i % side + 1, i // side + 1)))
        for i in range(side**2)
    )


def weights(rows, columns, *, heads=2, causal=False):
    drawn = RANDOM.dirichlet(np.ones(columns), (heads, rows)).astype(np.float32)
    return np.tril(drawn) if causal else drawn


def saved(folder, view, *, axes, maps, answered, extra, tokens=()):
    """Return a page with one view of synthetic maps."""
    outputs = (Output("a digit", -2.0, -2.0, tokens),)
    facts = {"axes": axes, "maps": tuple(maps), "answered": answered, "outputs": outputs, "extra": {view: extra}}
    path = folder / f"{view}.html"
    path.write_text(bundle(to_json(Inspection("x.png", "model", "task", views=(view,), **facts))), encoding="utf-8")
    return path.as_uri()


def drawing(page, key):
    return page.locator(f"canvas[data-key='{key}']").evaluate("canvas => canvas.toDataURL()")


@pytest.fixture(scope="module")
def canvas(tmp_path_factory):
    small = {"height": 2, "width": 2, "pixels": [[0], [90], [180], [255]]}
    extra = {**PICTURE, "channels": 1, "blocks": [[0, 8], [8, 16]], "memories": [[], list(range(8))]}
    extra |= {"small": small, "bicubic": PICTURE["pixels"], "truth": PICTURE["pixels"]}
    native = Map("a.self_attn", "a.self_attn", "made", "made", weights(COUNT, COUNT, causal=True), "g", "Made → made")
    cross = Map("a.cross_attn", "a.cross_attn", "made", "small", weights(COUNT, 4), "h", "Made → small image")
    tokens = tuple(Token(str(i), -1.0) for i in range(COUNT))
    axes = {"made": Axis(grid(), "made"), "small": Axis(grid(2), "small image")}
    folder = tmp_path_factory.mktemp("canvas")
    return saved(folder, "canvas", axes=axes, maps=(native, cross), answered="made", extra=extra, tokens=tokens)


def test_a_pixel_shows_its_block_and_every_head_and_the_making_plays(canvas, browser):
    with opened(browser, canvas, fragment="#view=canvas") as page:
        captions = page.locator("figcaption").all_inner_texts()
        assert captions == ["generated", "head 1", "head 2", "input, 2x2", "bicubic", "ground truth"]
        plain = drawing(page, "canvas")
        box = page.locator("canvas[data-key='canvas']").bounding_box()
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.6 * box["height"])
        page.wait_for_selector(".distribution")
        assert (
            "2,2 was predicted with probability 37%, attending to · head 1"
            in page.locator(".distribution h3").inner_text()
        )
        assert drawing(page, "canvas") != plain and "row=10" in page.url
        page.locator("canvas[data-key='canvas']").press("ArrowRight")
        page.wait_for_function("location.hash.includes('row=11')")
        page.locator("[data-key='eye:1']").click()
        assert "head=1" in page.url
        button = page.locator("[data-key='canvas:play']")
        button.click()
        assert button.inner_text() == "■ Stop"
        button.click()
        assert button.inner_text() == "▶ Play"


def test_a_pixel_shows_what_it_looked_at_in_the_small_image(canvas, browser):
    with opened(browser, canvas, fragment="#view=canvas&map=a.cross_attn&row=5") as page:
        page.wait_for_selector(".distribution")
        assert page.locator(".distribution .share").count() == 4


@pytest.fixture(scope="module")
def overlay(tmp_path_factory):
    patches = Axis((Item("class", special=True), *grid()), "patches")
    removed = [{"patches": [], "answer": "7", "share": 0.9}, {"patches": [3, 1], "answer": "1", "share": 0.6}]
    extra = {**PICTURE, "before": 1, "rollout": [1 / COUNT] * COUNT, "removed": removed}
    maps = [
        Map(f"{i}.attn", f"{i}.attn", "patches", "patches", weights(COUNT + 1, COUNT + 1), "g", f"Layer {i}", layer=i)
        for i in range(2)
    ]
    axes = {"answer": Axis((Item("7"),), "answer"), "patches": patches}
    folder = tmp_path_factory.mktemp("overlay")
    return saved(folder, "overlay", axes=axes, maps=maps, answered="answer", extra=extra, tokens=(Token("7", -0.1),))


def test_layers_by_heads_rollout_and_the_answer_without_the_strongest_patches(overlay, browser):
    with opened(browser, overlay, fragment="#view=overlay") as page:
        assert page.locator(".thumb").count() == 4 and page.locator(".thumb[aria-pressed='true']").count() == 1
        assert page.locator(".removal").all_inner_texts() == ["original: 7 90%", "without 2: 1 60%"]
        plain = drawing(page, "overlay")
        box = page.locator("canvas[data-key='overlay']").bounding_box()
        page.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 0.1 * box["height"])
        assert page.locator(".distribution h3").inner_text().startswith("patch 0,0 attends to")
        assert drawing(page, "overlay") != plain
        page.locator("[data-key='overlay:0.attn:1']").click()
        assert "map=0.attn" in page.url and "head=1" in page.url
        page.locator("select").select_option("rollout")
        assert page.locator(".distribution h3").inner_text().startswith("rollout")
        assert page.locator("canvas[data-key='overlay']").get_attribute("tabindex") is None


def test_patches_are_reached_by_arrow_keys(overlay, browser):
    with opened(browser, overlay, fragment="#view=overlay") as page:
        assert page.locator(".thumb[tabindex='0']").count() == 1
        page.locator("canvas[data-key='overlay']").focus()
        for key, shown in (("ArrowRight", "patch 0,0"), ("ArrowRight", "patch 0,1"), ("ArrowDown", "patch 1,1")):
            page.keyboard.press(key)
            assert page.locator(".distribution h3").inner_text().startswith(f"{shown} attends to")
            assert page.locator("#live").inner_text() == shown
        page.keyboard.press("Escape")
        assert page.locator(".distribution h3").inner_text().startswith("the class token")


@pytest.fixture(scope="module")
def boxes(tmp_path_factory):
    result = [("circle", 0.95, [0.0, 0.0, 0.5, 0.5]), ("square", 0.1, [0.5, 0.5, 1.0, 1.0])]
    queries = [{"label": label, "share": share, "box": box} for label, share, box in result]
    names = [Item(label, box=tuple(box)) for label, _, box in result]
    axes = {"objects": Axis(tuple(names), "objects"), "grid": Axis(grid(), "grid")}
    maps = [Map("d.cross_attn", "d.cross_attn", "objects", "grid", weights(2, COUNT), "g", "Objects → grid")]
    extra = {**PICTURE, "queries": queries, "least": 0.5}
    return saved(tmp_path_factory.mktemp("boxes"), "boxes", axes=axes, maps=maps, answered="objects", extra=extra)


def test_a_box_shows_what_its_query_looked_at(boxes, browser):
    with opened(browser, boxes, fragment="#view=boxes") as page:
        assert page.locator("#view canvas").first.get_attribute("aria-label") == "1 objects: circle"
        plain = drawing(page, "boxes")
        page.locator(".shares button").nth(1).hover()
        assert "row=1" in page.url and drawing(page, "boxes") != plain
        box = page.locator("canvas[data-key='boxes']").bounding_box()
        page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.2 * box["height"])
        page.wait_for_function("location.hash.includes('row=0')")


@pytest.mark.parametrize("view", ["canvas", "overlay", "boxes"])
def test_images_keep_their_proportions_on_a_phone(view, request, browser):
    with opened(browser, request.getfixturevalue(view), width=360, height=800) as page:
        shapes = page.locator(".picture").evaluate_all(
            "all => all.map(one => [one.width / one.height, one.clientWidth / one.clientHeight])"
        )
        assert shapes
        for drawn, shown in shapes:
            assert shown == pytest.approx(drawn, rel=0.03)
