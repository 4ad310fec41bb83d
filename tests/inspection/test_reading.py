"""Displayed values agree with the data: ranks, scales, titles, masks, signs; and invalid links."""

from __future__ import annotations

from dataclasses import replace

import examples
import numpy as np
import pytest
from browser import opened

from regard.core.inspectable import Axis, Item, Output
from regard.inspection.compare import to_page
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import Faithfulness, Inspection, Map, to_json

INSPECTION = examples.translation(2, 4)


def write(folder, data):
    path = folder / "page.html"
    path.write_text(bundle(data), encoding="utf-8")
    return path.as_uri()


def square(size, weights=None, **more):
    """Return an inspection with one self-attention map."""
    axis = Axis(tuple(Item(f"token{i}") for i in range(size)), "text")
    weights = np.full((1, size, size), 1 / size, np.float32) if weights is None else weights
    target = Map("m", "m", "text", "text", weights, group="g", title="Text self-attention", inward=True, **more)
    return Inspection("t", "m", "t", {"text": axis}, (target,))


def test_bars_of_the_n_best_follow_their_ranks_and_nothing_is_said_as_such(browser, tmp_path):
    outputs = (Output("a longer one", -4.0, -0.5), Output("short", -1.0, -0.6), Output("", -0.9, -0.9))
    with opened(
        browser, write(tmp_path, to_json(replace(INSPECTION, outputs=outputs))), fragment="#view=alignment"
    ) as page:
        widths = page.locator(".nbest .share-bar").evaluate_all("all => all.map(one => parseFloat(one.style.width))")
        assert widths == pytest.approx([100, 100 * np.exp(-0.1), 100 * np.exp(-0.4)])
        assert page.locator(".nbest-text").all_inner_texts() == ["a longer one", "short", "(empty)"]
    with opened(browser, write(tmp_path, to_json(replace(INSPECTION, outputs=outputs[2:])))) as page:
        assert page.locator(".spoken.output .spoken-text").inner_text() == "(empty)"


def test_a_negative_agreement_is_drawn_to_the_left_of_the_middle(browser, tmp_path):
    honest = Faithfulness((-0.48,), (0.25,))
    with opened(browser, write(tmp_path, to_json(square(4, honesty=honest)))) as page:
        bars = page.locator(".meter-bar").evaluate_all(
            "all => all.map(one => [one.offsetLeft - one.parentElement.offsetLeft, one.offsetWidth].map("
            "x => x / one.parentElement.offsetWidth))"
        )
        assert bars[0] == pytest.approx([0.26, 0.24], abs=0.02) and bars[1] == pytest.approx([0, 0.25], abs=0.02)


@pytest.mark.parametrize("run", ["-1", "7", "x"])
def test_a_link_to_a_run_that_is_not_there_shows_the_first(browser, tmp_path, run):
    both = to_page([INSPECTION, replace(INSPECTION, model="other")])
    with opened(browser, write(tmp_path, both), fragment=f"#run={run}&view=grid") as page:
        assert page.locator(".thumb").count() > 0


def test_tabs_stay_when_a_run_without_attention_is_chosen(browser, tmp_path):
    plain = replace(INSPECTION, model="seq2seq", maps=(), steps=(), truth=None, facts={"run": "plain"})
    with opened(browser, write(tmp_path, to_page([INSPECTION, plain])), fragment="#view=grid") as page:
        tabs = page.get_by_role("tab").all_inner_texts()
        page.get_by_label("Run").select_option("1")
        assert page.get_by_role("tab").all_inner_texts() == tabs and len(tabs) > 3
        assert "it has no attention" in page.locator("#view").inner_text()
        page.get_by_label("Run").select_option("0")
        assert page.locator(".thumb").count() > 0


def test_another_kind_or_thumbnail_forgets_column_and_heads(browser, tmp_path):
    with opened(browser, write(tmp_path, to_json(INSPECTION)), fragment="#view=grid&row=2&column=3&heads=0.1") as page:
        page.get_by_role("radio", name="Output self-attention").click()
        assert "column" not in page.url and "row" not in page.url
        page.locator(".thumb >> nth=3").click()
        assert "heads" not in page.url
        page.locator("#tab-lines").click()
        assert page.locator(".chip[aria-pressed=true]").all_inner_texts() == ["4"]


def test_a_theme_chosen_by_hand_outlives_the_system(browser, tmp_path):
    with opened(browser, write(tmp_path, to_json(INSPECTION)), scheme="light") as page:
        page.get_by_role("button", name="Use dark colors").click()
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("size", [40, 90])
def test_labels_do_not_collide(browser, tmp_path, size):
    with opened(browser, write(tmp_path, to_json(square(size))), width=1100) as page:
        tops = page.locator(".row-label").evaluate_all(
            "all => all.filter(one => getComputedStyle(one).visibility === 'visible').map(one => one.getBBox().y)"
        )
        assert min(np.diff(tops)) >= 13  # the height of a line
        titles = page.locator(".axis-title").all_text_contents()
        assert titles == ["text (keys)", "text (queries)"]


def test_thumbnails_say_their_scale_and_masked_cells_have_a_colour_of_their_own(browser, tmp_path):
    weights = np.tril(np.ones((2, 6, 6), np.float32)) / np.arange(1, 7, dtype=np.float32)[:, None]
    result = square(6, weights, allowed=np.tril(np.ones((1, 6, 6), bool)))
    with opened(browser, write(tmp_path, to_json(result))) as page:
        assert "own scale" in page.locator(".scales").inner_text()
        page.wait_for_selector(".thumb canvas")
        corner, zero = page.locator(".thumb canvas >> nth=0").evaluate(
            "canvas => [[0.95, 0.05], [0.05, 0.95]].map(([x, y]) => canvas.getContext('2d')"
            ".getImageData(x * canvas.width, y * canvas.height, 1, 1).data.join())"
        )
        assert corner == "228,226,220,255" and zero != corner
        assert page.locator(".legend-masked").count() == 1


def test_a_long_map_is_not_white(browser, tmp_path):
    """A causal map: the first row has a weight of 1, all others are small."""
    size = 600
    weights = (np.tril(np.ones((1, size, size))) / np.arange(1, size + 1)[:, None]).astype(np.float32)
    with opened(browser, write(tmp_path, to_json(square(size, weights)))) as page:
        page.wait_for_selector(".tiles")
        page.wait_for_function("performance.getEntriesByName('first-map').length > 0")
        page.wait_for_timeout(200)
        dark = page.locator(".tiles").evaluate(
            "canvas => { const side = canvas.width; const context = canvas.getContext('2d');"
            " const d = context.getImageData(side * 0.2, side * 0.85, 1, 1).data; return (d[0] + d[1] + d[2]) / 3; }"
        )
        assert dark < 215
        assert "root scale" in page.locator(".legend").inner_text()


def test_korean_breaks_between_words(browser, tmp_path):
    long = replace(
        INSPECTION, outputs=(Output("늙은 선생님은 작은 아이에게 아주 커다란 그림책을 주셨어요 " * 3, -1.0, -0.1),)
    )
    with opened(browser, write(tmp_path, to_page([long, INSPECTION])), width=420) as page:
        assert (
            page.locator(".compared .spoken-text >> nth=0").evaluate("one => getComputedStyle(one).wordBreak")
            == "keep-all"
        )


def test_the_training_view_names_the_probe_and_its_rows(browser, tmp_path):
    fixed = tuple(replace(item, text="the old teacher", fixed=True) for item in INSPECTION.probes)
    with opened(
        browser, write(tmp_path, to_json(replace(INSPECTION, probes=fixed))), fragment="#view=training"
    ) as page:
        assert "the old teacher" in page.locator(".readout").inner_text()
        assert "given the reference output at every step" in page.locator("#view").inner_text()


def test_numbers_that_are_not_in_the_file_are_said_to_be_elsewhere(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.inspection.json_format.MAX_STEP_NUMBERS", 0)
    with opened(browser, write(tmp_path, to_json(INSPECTION)), fragment="#view=steps") as page:
        page.locator(".wrong").wait_for()
        assert "not in the file" in page.locator(".wrong").inner_text()
