"""The page on different screens and with long inputs: sizes, themes, contrast, time."""

from __future__ import annotations

from dataclasses import replace

import examples
import numpy as np
import pytest
from browser import opened

from regard.core.inspectable import Output
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import to_json

FIRST_PAINT = 2.0  # seconds for a page of 2048 × 2048 tokens
VIEWS = ("grid", "lines", "alignment", "steps", "positions", "embeddings", "training")


@pytest.fixture(scope="session")
def page_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("screens") / "page.html"
    path.write_text(bundle(to_json(examples.translation(3, 8))), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="session")
def long_found():
    return examples.long(2048, 1)


@pytest.fixture(scope="session")
def long_file(tmp_path_factory, long_found):
    path = tmp_path_factory.mktemp("screens") / "long.html"
    path.write_text(bundle(to_json(long_found)), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_hangs_over_the_edge_of_a_phone(browser, page_file, scheme):
    with opened(browser, page_file, width=390, height=844, scheme=scheme) as page:
        for view in VIEWS:
            page.locator(f"#tab-{view}").click()
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
            small = page.locator("button:visible").evaluate_all(
                "all => all.filter(one => one.getBoundingClientRect().height < 20).map(one => one.outerHTML)"
            )
            assert [item for item in small if "link" not in item] == []


@pytest.fixture(scope="session")
def wordy_file(tmp_path_factory):
    """Return an output without spaces, and items that are sentences."""
    result = examples.translation(1, 2)
    names = [f"sentence {i}, which goes on for much longer than a phone is wide" for i in range(len(examples.SOURCE))]
    axes = {**result.axes, "source": examples.axis(names, "source")}
    path = tmp_path_factory.mktemp("screens") / "wordy.html"
    changed = replace(result, axes=axes, outputs=(Output("na" * 200, -1.0),), embeddings=())
    path.write_text(bundle(to_json(changed)), encoding="utf-8")
    return path.as_uri()


OUTSIDE = """all => all.filter((text) => {
  const [own, frame] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
  return own.left < frame.left - 1 || own.right > frame.right + 1;
}).map((text) => text.textContent)"""


@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
def test_long_words_and_long_names_stay_inside_a_phone(browser, wordy_file, locale):
    with opened(browser, wordy_file, width=390, height=844, locale=locale) as page:
        for view in ("grid", "lines", "alignment"):
            page.locator(f"#tab-{view}").click()
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
            words = page.locator(".view svg .line-word text, .view svg .aligned")
            assert words.evaluate_all(OUTSIDE) == [], view
        assert "…" in words.first.evaluate("text => text.firstChild.data")
        assert words.first.locator("title").count() == 1  # the complete name


def test_what_is_long_stands_beside_its_label_on_a_desk(browser, wordy_file):
    with opened(browser, wordy_file) as page:
        boxes = [page.locator(f".output .{name}").bounding_box() for name in ("spoken-label", "spoken-text")]
        assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"] and boxes[1]["y"] < boxes[0]["y"] + boxes[0]["height"]


def test_names_in_a_scatter_do_not_lie_on_each_other(browser, page_file):
    with opened(browser, page_file, fragment="#view=embeddings", width=390) as page:
        boxes = page.locator(".scatter text").evaluate_all(
            "all => all.map((text) => text.getBoundingClientRect()).map((b) => [b.left, b.right, b.top, b.bottom])"
        )
        assert page.locator(".dot.on text").count() == 1 < len(boxes)
        clear = 2  # pixels of a line above and below its text
        for i, (remaining, right, top, bottom) in enumerate(boxes):
            for candidate in boxes[:i]:
                apart = right <= candidate[0] or candidate[1] <= remaining
                assert apart or bottom - clear <= candidate[2] + clear or candidate[3] - clear <= top + clear


def luminance(colour):
    parts = np.array([int(part) for part in colour.strip("rgb()").split(",")[:3]]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(browser, page_file, scheme):
    with opened(browser, page_file, scheme=scheme) as page:
        back, ink, soft = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,"
            " getComputedStyle(document.querySelector('.quiet')).color]"
        )
        for colour in (ink, soft):
            light, dark = sorted((luminance(back), luminance(colour)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5
        assert (luminance(back) > 0.5) == (scheme == "light")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_of_weights_differ_in_lightness_alone_too(browser, page_file, scheme):
    """The lightness of the color scale is monotonic, for color-blind users and gray print."""
    with opened(browser, page_file, scheme=scheme, fragment="#view=grid") as page:
        bar = page.locator(".legend-bar").evaluate("bar => bar.style.background")
        colours = ["rgb(" + part.split(")")[0] + ")" for part in bar.split("rgb(")[1:]]
        steps = np.diff([luminance(colour) for colour in colours])
        assert (steps < 0).all() if scheme == "light" else (steps > 0).all()


def test_the_theme_can_be_switched_and_maps_are_painted_anew(browser, page_file):
    with opened(browser, page_file, fragment="#view=grid") as page:
        before = page.locator(".cells").screenshot()
        page.get_by_role("button", name="Use dark colors").click()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.locator(".cells").screenshot() != before


def watching(page):
    """Return a function that reads the CPU time of the page from the browser."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return lambda name: {item["name"]: item["value"] for item in session.send("Performance.getMetrics")["metrics"]}[
        name
    ]


def test_a_long_map_is_painted_soon(browser, long_file):
    """Uses the CPU time of the page, which does not depend on tests that run at the same time."""
    with opened(browser, "about:blank") as page:
        spent = watching(page)
        page.goto(long_file)
        page.wait_for_selector(".legend-bar")
        used = spent("ProcessTime")
        assert page.evaluate("performance.getEntriesByName('first-map').length") == 1
        page.requested_urls.clear()
    assert 0 < used < FIRST_PAINT


def test_a_long_map_zooms_to_single_cells_with_their_true_weights(browser, long_file, long_found):
    weights = long_found.maps[0].weights[0]
    with opened(browser, long_file, fragment="#row=1500&column=1403") as page:
        page.wait_for_selector(".tiles")
        page.wait_for_selector(".distribution")
        box = page.locator(".tiles").bounding_box()
        middle = (box["x"] + 96 + (box["width"] - 96) / 2, box["y"] + 96 + (box["height"] - 96) / 2)
        page.mouse.move(*middle)
        page.locator(".readout", has_text="attends to").wait_for()
        texts = page.locator(".readout").inner_text().split()
        assert (texts[0], texts[3]) == ("w1501", "w1403")
        assert float(texts[4]) == pytest.approx(weights[1500, 1403], abs=1e-4)
        assert page.locator(".sum").inner_text() == "sum 1.0000"


def test_moving_over_a_long_map_never_stalls(browser, long_file):
    with opened(browser, long_file) as page:
        page.wait_for_selector(".legend-bar")
        box = page.locator(".tiles").bounding_box()
        page.mouse.move(box["x"] + 300, box["y"] + 300)
        spent = watching(page)
        before = spent("TaskDuration")
        for _ in range(12):
            page.mouse.wheel(0, -240)
            page.wait_for_timeout(30)
        assert spent("TaskDuration") - before < 12 * 0.1  # a tenth of a second per wheel event, including unpacking
