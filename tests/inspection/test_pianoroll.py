"""The piano roll of a synthetic piece: notes, attention of a token, and playback."""

from __future__ import annotations

from dataclasses import replace

import examples
import numpy as np
import pytest
from browser import opened

from regard.core.inspectable import Axis, Item, Output, Token
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import Inspection, Map, to_json

SIZE = 24


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """Two voices in turn, every fifth token a rest."""
    random = np.random.default_rng(2)
    items = tuple(
        Item("rest") if i % 5 == 4 else Item(f"n{i}", time=0.5 * (i // 2), pitch=60 + i % 7 + 7 * (i % 2))
        for i in range(SIZE)
    )
    notes = [[item.time, item.time + 0.5, item.pitch, i % 2, 80] for i, item in enumerate(items) if item.pitch]
    axes = {
        "output": Axis(items, "output"),
        "read": Axis((Item("start", special=True), *items[:-1]), "read"),
    }
    weights = examples.square(random, 2, SIZE, True)
    result = Map("layers.0", "layers.0", "output", "read", weights, "g", "Output self-attention", inward=True)
    piece = Inspection(
        "piece.mid",
        "model",
        "music",
        axes,
        (result,),
        answered="output",
        outputs=(Output("piece.mid", -9.0, None, tuple(Token(item.text, -0.25 * i) for i, item in enumerate(items))),),
        views=("pianoroll",),
        extra={"roll": {"notes": notes, "voices": ["Upper", "Lower"]}},
    )
    path = tmp_path_factory.mktemp("roll") / "page.html"
    path.write_text(bundle(to_json(piece)), encoding="utf-8")
    return path.as_uri(), piece


def test_the_page_draws_arcs_and_plays(page_file, browser):
    address, piece = page_file
    with opened(browser, address, fragment="#view=pianoroll") as page:
        assert page.locator(".roll-note").count() == len(piece.extra["roll"]["notes"])
        page.wait_for_selector(".roll-arc", state="attached")  # a token in the middle is selected at first
        chosen = len(piece.maps[0].weights[0]) // 2
        assert f"row={chosen}" in page.url
        page.locator(".roll").focus()
        for _ in range(chosen - 1):
            page.keyboard.press("ArrowLeft")
        page.wait_for_function("location.hash.endsWith('row=1')")
        assert page.locator(".distribution h3").inner_text() == (
            "n1 was predicted with probability 78%, attending to · head 1"
        )
        shown = [float(value) for value in page.locator(".share-value").all_inner_texts()]
        assert shown == pytest.approx(piece.maps[0].weights[0, 1].tolist(), abs=1e-4)
        page.get_by_role("radio", name="2").click()
        assert "head=1" in page.url
        play = page.locator("[data-key='roll:play']")
        play.click()
        assert play.inner_text() == "■ Stop"
        play.click()
        assert play.inner_text() == "▶ Play"
        page.locator(".roll-note").last.click()
        page.wait_for_selector(".roll-chosen")
        assert f"row={SIZE - 1}" in page.url


def test_a_rest_is_shown_where_the_token_before_it_is(page_file, browser):
    with opened(browser, page_file[0], fragment="#view=pianoroll&row=4") as page:
        page.wait_for_selector(".roll-chosen")
        at = page.locator(".roll-chosen").get_attribute("cx")
        page.locator(".roll").focus()
        page.keyboard.press("ArrowLeft")
        page.locator(".distribution h3", has_text="n3").wait_for()
        assert page.locator(".roll-chosen").get_attribute("cx") == at


def test_arcs_lead_to_the_notes_and_the_start_mark_at_the_left(page_file, browser):
    with opened(browser, page_file[0], fragment="#view=pianoroll&row=0") as page:
        page.wait_for_selector(".roll-arc", state="attached")
        (arc,) = page.locator(".roll-arc").all()  # the first token has read only BOS
        assert arc.get_attribute("data-key-token") == "0"


@pytest.mark.parametrize("width", [800, 1400])
def test_the_name_of_every_second_is_whole(page_file, browser, tmp_path, width):
    _, piece = page_file
    notes = [*piece.extra["roll"]["notes"], [9.5, 10.0, 60, 0, 80]]  # it ends at a label
    path = tmp_path / "page.html"
    path.write_text(
        bundle(to_json(replace(piece, extra={"roll": {"notes": notes, "voices": ["One"]}}))), encoding="utf-8"
    )
    with opened(browser, path.as_uri(), fragment="#view=pianoroll", width=width) as page:
        roll = page.locator(".roll").bounding_box()
        assert page.locator(".roll text").last.text_content() == "10 s"
        for name in page.locator(".roll text").all():
            box = name.bounding_box()
            assert roll["x"] <= box["x"] and box["x"] + box["width"] <= roll["x"] + roll["width"]
