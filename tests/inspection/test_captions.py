"""The caption view: words highlight cells, playback, side-by-side runs, and occlusion."""

from __future__ import annotations

import numpy as np
import pytest
from browser import opened

from regard.core.inspectable import Axis, Item, Output, Token
from regard.inspection import compare
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import Inspection, Map, to_json

WORDS = ("a", "red", "circle", "<end>")
SIDE = 4  # cells along a side


def captioned(name, *, hard=False, attends=True):
    """A synthetic caption of a synthetic image."""
    random = np.random.default_rng(3)
    cells = tuple(
        Item(f"{i // SIDE},{i % SIDE}", box=(i % SIDE / 4, i // SIDE / 4, (i % SIDE + 1) / 4, (i // SIDE + 1) / 4))
        for i in range(SIDE**2)
    )
    axes = {
        "words": Axis(tuple(Item(word, special=word == "<end>") for word in WORDS), "words"),
        "cells": Axis(cells, "cells"),
    }
    weights = random.dirichlet(np.ones(SIDE**2), (1, len(WORDS))).astype(np.float32)
    if hard:
        weights = np.eye(SIDE**2, dtype=np.float32)[weights.argmax(-1)]
    result = Map("looking.cross_attn", "looking.cross_attn", "words", "cells", weights, "g", "Words → cells")
    tokens = tuple(Token(word, -0.5, ((word, -0.5), ("blue", -1.5))) for word in WORDS)
    again = [{"box": list(cell.box), "text": "a red circle" if i else "a square"} for i, cell in enumerate(cells)]
    pixels = random.integers(0, 255, (16 * 16, 3)).tolist()
    return Inspection(
        "x.png",
        "captioner",
        "captioning",
        axes,
        (result,) if attends else (),
        answered="words",
        outputs=(Output("a red circle", -2.0, -2.0, tokens),),
        views=("captions",),
        facts={"run": name},
        extra={"captions": {"height": 16, "width": 16, "pixels": pixels, "again": again}},
    )


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    path = tmp_path_factory.mktemp("captions") / "page.html"
    path.write_text(bundle(to_json(captioned("soft"))), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def several_outputs(tmp_path_factory):
    runs = [captioned("soft"), captioned("hard", hard=True), captioned("none", attends=False)]
    path = tmp_path_factory.mktemp("captions") / "several.html"
    path.write_text(bundle(compare.to_page(runs)), encoding="utf-8")
    return path.as_uri()


def test_a_word_shows_where_was_looked_and_the_sentence_plays(single, browser):
    with opened(browser, single, fragment="#view=captions") as page:
        plain = page.locator(".caption-card canvas").evaluate("canvas => canvas.toDataURL()")
        page.locator("[data-word='1']").hover()
        assert page.locator(".caption-card .readout").inner_text().startswith("red attends most to cell ")
        assert "probability 61% · alternatives: blue 22%" in page.locator(".caption-card .readout").inner_text()
        assert (
            page.locator(".caption-card canvas").evaluate("canvas => canvas.toDataURL()") != plain
            and "row=1" in page.url
        )
        button = page.locator("[data-key='caption:play']")
        button.click()
        assert button.inner_text() == "■ Stop"
        page.wait_for_selector("[data-word='1'][aria-pressed='true']")
        button.click()
        assert button.inner_text() == "▶ Play"


def test_a_part_is_greyed_out(single, browser):
    with opened(browser, single, fragment="#view=captions") as page:
        assert page.locator(".again-text").inner_text().endswith("(nothing greyed out)")
        page.locator("[data-key^='grey:']").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".again-text").inner_text() == "a square (changed)"
        page.keyboard.press("ArrowRight")
        assert page.locator(".again-text").inner_text() == "a red circle (unchanged)"


def test_runs_stand_side_by_side(several_outputs, browser):
    with opened(browser, several_outputs, fragment="#row=2") as page:  # the page starts with this view
        assert page.locator(".caption-card").count() == 3
        says = page.locator(".caption-card .readout").all_inner_texts()
        assert "(1.00)" in says[1] and says[2].startswith("No attention: the entire image is one vector")
        assert page.locator(".caption-card h2").all_inner_texts() == ["soft", "hard", "none"]
