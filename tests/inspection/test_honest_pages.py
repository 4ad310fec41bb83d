"""Clicks and numbers of the page: scales, labels in sight, images as keys, results in the form of the task."""

from __future__ import annotations

from dataclasses import replace

import examples
import numpy as np
import pytest
from browser import opened
from test_pictured_views import COUNT, PICTURE, grid, weights

from regard.core.inspectable import Axis, Item, Output
from regard.inspection.compare import to_page
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import Inspection, Map, to_json

INSPECTION = examples.translation(2, 4)
MAPS = {item.name: item for item in INSPECTION.maps}


def write(path, data):
    path.write_text(bundle(data), encoding="utf-8")
    return path.as_uri()


def causal(size, heads=2, layers=1):
    """Return an inspection of causal maps, in which the first row has weight 1 by necessity."""
    random = np.random.default_rng(5)
    axes = {
        "read": Axis(tuple(Item(f"r{n}") for n in range(size)), "read"),
        "output": Axis(tuple(Item(f"w{n}") for n in range(size)), "output"),
    }
    allowed = np.tril(np.ones((1, size, size), bool))
    maps = tuple(
        Map(
            f"layers.{layer}",
            f"layers.{layer}",
            "output",
            "read",
            examples.square(random, heads, size, True),
            "output",
            "Output self-attention",
            layer=layer,
            inward=True,
            allowed=allowed,
        )
        for layer in range(layers)
    )
    return Inspection("words", "gpt", "language", axes, maps, answered="output", outputs=(Output("words", -1.0),))


def test_a_forced_row_does_not_set_the_scale(browser, tmp_path):
    result = causal(12)
    drawn = result.maps[0].weights[1]
    assert drawn[0, 0] == 1
    with opened(browser, write(tmp_path / "page.html", to_json(result)), fragment="#head=1") as page:
        top = page.locator(".large .legend .figure >> nth=1")
        assert float(top.inner_text()) == pytest.approx(drawn[1:].max(), abs=5e-3)
        page.get_by_role("radio", name="per row").click()
        assert top.inner_text() == "1.00" and "scale=row" in page.url
        page.get_by_role("radio", name="root").click()
        assert "root scale" in page.locator(".large .legend").inner_text()


def visible_in_window(page, locator):
    box, size = locator.bounding_box(), page.viewport_size
    return box["y"] >= 0 and box["y"] + box["height"] <= size["height"] and box["x"] + box["width"] <= size["width"]


def test_labels_and_numbers_stay_in_sight_in_a_map_of_100_tokens(browser, tmp_path):
    result = causal(100, heads=4, layers=12)
    address = write(tmp_path / "page.html", to_json(result))
    with opened(browser, address, width=1440, fragment="#map=layers.11&head=2") as page:
        assert page.locator(".large h2").bounding_box()["y"] < 900  # the map is not below the fold
        page.locator(".matrix").focus()
        for _ in range(90):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        row, column = (
            90,
            page.locator(".column-label").evaluate_all("all => all.findIndex(label => label.classList.contains('on'))"),
        )
        assert page.locator(".row-label.on title").all_text_contents() == ["w90"]
        page.locator(".large").evaluate("card => card.scrollIntoView()")
        for label in (".row-label.on", ".column-label.on", ".readout", ".large-side h3"):
            assert visible_in_window(page, page.locator(label)), label
        value = float(page.locator(".readout .figure").inner_text())
        assert value == pytest.approx(result.maps[11].weights[2, row, column], abs=6e-5)
        assert page.locator(".large-side h3").inner_text().startswith("w90")


def test_another_head_keeps_the_row_and_the_page_does_not_scroll(browser, tmp_path):
    address = write(tmp_path / "page.html", to_json(INSPECTION))
    with opened(browser, address, fragment="#view=grid&map=cross.1&row=4") as page:
        page.get_by_role("button", name="Output → source, layer 2, head 3").click()
        assert page.locator(".distribution h3").inner_text().startswith("책을")
        shown = [float(text) for text in page.locator(".large .share-value").all_inner_texts()]
        assert shown == pytest.approx(MAPS["cross.1"].weights[2, 4].tolist(), abs=6e-5)
        page.locator("#tab-steps").click()
        assert page.evaluate("window.scrollY") == 0


def test_every_view_shows_the_same_four_decimals(browser, tmp_path):
    step = INSPECTION.steps[0]
    address = write(tmp_path / "page.html", to_json(INSPECTION))
    with opened(browser, address, fragment=f"#view=grid&map={step.map}&head=0&row=3") as page:
        in_grid = page.locator(".large .share-value").all_inner_texts()
        page.locator("#tab-steps").click()
        page.wait_for_selector(".steps")
        assert page.locator(".steps td.weight").all_inner_texts() == in_grid


def off(result, name, head):
    """Return the inspection with a head switched off: all its weights are zero."""
    maps = []
    for item in result.maps:
        values = item.weights.copy()
        if item.name == name:
            values[head] = 0
        maps.append(replace(item, weights=values))
    return replace(result, maps=tuple(maps))


def test_a_head_that_is_off_says_so(browser, tmp_path):
    address = write(tmp_path / "page.html", to_json(off(INSPECTION, "cross.1", 2)))
    with opened(browser, address, fragment="#view=grid&map=cross.1&head=2") as page:
        assert page.locator(".large .sum").inner_text() == "this head is switched off"
        assert page.locator(".large .legend").count() == 0
        page.get_by_role("button", name="Output → source, layer 2, head 1").click()
        assert page.locator(".large .sum").inner_text() == "sum 1.0000"


@pytest.fixture
def boxes_page(tmp_path):
    queries = [
        {"label": "ring", "share": 0.875, "box": [0.0, 0.0, 0.5, 0.5]},
        {"label": "cross", "share": 0.2, "box": [0.5, 0.5, 1.0, 1.0]},
    ]
    axes = {"objects": Axis((Item("ring"), Item("cross")), "objects"), "grid": Axis(grid(), "grid")}
    cells = Map("d.cross_attn", "d.cross_attn", "objects", "grid", weights(2, COUNT), "g", "Objects → grid")
    result = Inspection(
        "x.png",
        "detr",
        "detection",
        axes,
        (cells,),
        answered="objects",
        outputs=(Output("ring 0.88 at 1,2-3,4", -7.0),),
        views=("boxes",),
        extra={"boxes": {**PICTURE, "queries": queries, "least": 0.5}},
    )
    return cells, write(tmp_path / "boxes.html", to_json(result))


def test_cells_of_an_image_are_shown_as_the_image(browser, boxes_page):
    cells, address = boxes_page
    with opened(browser, address) as page:
        assert page.locator(".output .spoken-text").inner_text() == "ring 88%"  # neither coordinates nor log p
        assert page.locator(".output .figure").count() == 0
        assert page.locator(".input .small-picture").count() == 1
        top = page.locator(".legend .figure >> nth=1")
        assert float(top.inner_text()) == pytest.approx(cells.weights[0, 0].max(), abs=5e-3)
        page.locator("#tab-grid").click()
        assert page.locator(".thumb .picture").count() == 2 and page.locator(".row-image .picture").count() == 1
        page.locator("#tab-lines").click()
        assert page.locator(".line-image").count() == 1 and page.locator(".line-word.key text").count() == 0
        page.locator(".line-word.key.cell >> nth=5").hover()
        shown = [float(text) for text in page.locator(".distribution .share-value").all_inner_texts()]
        assert shown == pytest.approx(cells.weights[0, :, 5].tolist(), abs=6e-5)


def test_entities_are_highlighted_with_one_color_per_type(browser, tmp_path):
    def result(text, entities):
        units = Axis(
            tuple(Item(word, span=(text.index(word), text.index(word) + len(word))) for word in text.split()), "units"
        )
        tokens = tuple(examples.tokens()[i] for i in range(len(units.items)))
        extra = {
            "text": text,
            "entities": entities,
            "tags": ["O"] * len(units.items),
            "firsts": list(range(len(units.items))),
            "types": ["person", "place", "time"],
        }
        return Inspection(
            text,
            "tagger",
            "tagging",
            {"units": units},
            (),
            outputs=(Output("<May:person> met", -0.1, -0.1, tokens),),
            views=("entities",),
            extra={"entities": extra},
        )

    both = [{"start": 0, "stop": 3, "type": "person"}, {"start": 8, "stop": 12, "type": "place"}]
    colors = []
    for name, text, entities in (("a", "May saw Rome", both), ("b", "She saw Rome", both[1:])):
        with opened(browser, write(tmp_path / f"{name}.html", to_json(result(text, entities)))) as page:
            line = page.locator(".output .spoken-text")
            assert "<" not in line.inner_text() and "Rome place" in line.inner_text()
            colors.append(line.locator(".entity").last.evaluate("word => word.style.background"))
    assert colors[0] == colors[1]


def test_runs_are_compared_on_one_scale_with_linked_rows_and_their_difference(browser, tmp_path):
    sharp = [
        replace(item, weights=(item.weights**2 / (item.weights**2).sum(-1, keepdims=True)).astype(np.float32))
        for item in INSPECTION.maps
    ]
    second = replace(INSPECTION, maps=tuple(sharp), facts={"run": "sharp", "parameters": 7})
    first_map, second_map = (
        next(item for item in run.maps if item.name == "cross.1").weights.mean(0) for run in (INSPECTION, second)
    )
    with opened(browser, write(tmp_path / "page.html", to_page([INSPECTION, second])), width=1400) as page:
        tops = page.locator(".compared .legend .figure:nth-child(3)").all_inner_texts()
        assert tops == [f"{max(first_map.max(), second_map.max()):.2f}"] * 2
        box = page.locator("[data-run='0'] .cells").bounding_box()
        page.mouse.move(box["x"] + 5.5 * box["width"] / 10, box["y"] + 2.5 * box["height"] / 8)
        for run, values in ((0, first_map), (1, second_map)):
            card = page.locator(f"[data-run='{run}']")
            assert float(card.locator(".readout .figure").inner_text()) == pytest.approx(values[2, 5], abs=6e-5)
            assert card.locator(".row-label.on title").all_text_contents() == ["작은"]
        difference = page.locator(".difference")
        assert difference.locator("h2").inner_text() == "sharp minus runs/en-ko"
        box = difference.locator(".cells").bounding_box()
        page.mouse.move(box["x"] + 5.5 * box["width"] / 10, box["y"] + 2.5 * box["height"] / 8)
        shown = difference.locator(".readout .figure").inner_text().replace("−", "-")
        assert float(shown) == pytest.approx(second_map[2, 5] - first_map[2, 5], abs=1e-4)


def test_a_word_of_300_letters_wraps(browser, tmp_path):
    word = "x" * 300
    result = replace(
        INSPECTION,
        title=word,
        outputs=(Output(word, -1.0, -1.0, tuple(token._replace(text=word) for token in examples.tokens())),),
    )
    with opened(browser, write(tmp_path / "page.html", to_json(result)), width=900) as page:
        for tab in page.get_by_role("tab").all():
            tab.click()
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), tab.inner_text()


CONTRAST = """element => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const linear = (x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const luminance = (rgb) => rgb.slice(0, 3).map((x) => linear(x / 255))
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  let behind = element;
  while (behind && /rgba\\(0, 0, 0, 0\\)/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
  const colors = [getComputedStyle(element).color, getComputedStyle(behind ?? document.body).backgroundColor];
  const [text, ground] = colors.map((color) => luminance(channels(color)));
  return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_and_chips_are_readable(browser, tmp_path, scheme):
    ramp = np.linspace(0.01, 1, 10)
    step = INSPECTION.steps[0]
    maps = [
        replace(item, weights=np.tile((ramp / ramp.sum()).astype(np.float32), (4, item.weights.shape[1], 1)))
        if item.name == step.map
        else item
        for item in INSPECTION.maps
    ]
    address = write(tmp_path / "page.html", to_json(replace(INSPECTION, maps=tuple(maps))))
    with opened(browser, address, scheme=scheme, fragment=f"#view=steps&map={step.map}") as page:
        page.wait_for_selector(".steps")
        for cell in page.locator(".steps td.weight").all():
            assert cell.evaluate(CONTRAST) >= 4.5
        page.locator("#tab-lines").click()
        page.get_by_role("button", name="all", exact=True).click()
        for chip in page.locator(".chip[aria-pressed='true']").all():
            assert chip.evaluate(CONTRAST) >= 4.5


def test_one_of_100_items_is_found_by_a_search(browser, tmp_path):
    served = {**to_json(causal(100)), "server": "/api", "text": "words"}  # as a server sends it
    with opened(browser, write(tmp_path / "page.html", served)) as page:
        assert page.locator(".token-switch").count() == 60
        page.get_by_role("searchbox", name="Search items").fill("r97")
        assert page.locator(".token-switch").all_inner_texts() == ["r97"]
        page.get_by_role("searchbox", name="Search items").fill("98")  # its number
        assert page.locator("[data-key='forbid:read:97']").count() == 1


EDGES = """element => {
  const style = getComputedStyle(element);
  return [style.outlineStyle, style.outlineWidth, style.borderBottomWidth].join();
}"""


def test_remarks_swipes_and_high_contrast(browser, tmp_path, boxes_page):
    remark = "the first 36 tokens are outside of the context"
    with opened(browser, write(tmp_path / "page.html", to_json(replace(INSPECTION, remarks=(remark,))))) as page:
        assert page.locator(".remark").inner_text() == remark
        page.emulate_media(forced_colors="active")
        page.locator("#tab-grid").click()
        for kind, state in ((".tab", "aria-selected"), (".thumb", "aria-pressed")):
            chosen, other = (
                page.locator(f"{kind}[{state}={value}]").first.evaluate(EDGES) for value in ("true", "false")
            )
            assert chosen != other, kind
        assert page.locator(".legend-bar").evaluate("bar => getComputedStyle(bar).forcedColorAdjust") == "none"
        edges = page.locator(".answer-token").evaluate_all(
            "all => all.map((t) => getComputedStyle(t).borderBottomColor)"
        )
        assert len(set(edges)) == len({round(token.score, 3) for token in INSPECTION.outputs[0].tokens}) > 1
    with opened(browser, boxes_page[1], width=390) as page:
        assert page.locator(".picture").first.evaluate("image => getComputedStyle(image).touchAction") == "pan-y"
