"""The served page as people use it: what is typed stays, the address restores everything, nothing gets stuck."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
from browsing import opened, serving

from regard.inspection.collect import collect
from regard.inspection.whatif import Changes
from regard.serve.app import create

OTHER = "They sleep ."


@pytest.fixture
def page(browser, run, sentence):
    with (
        serving(create(run, sentence)) as address,
        opened(browser, address, offline=False, expected="400 (Bad") as page,
    ):
        yield page


def test_every_token_can_be_forbidden_and_let_go(page, subject, sentence):
    last = len(collect(subject, sentence).axes["source"].items) - 1
    for item in (0, last):
        page.locator(f'[data-key="forbid:source:{item}"]').click()
        page.locator(".outcome").wait_for()
        assert page.locator(".wrong").count() == 0
        wanted = collect(subject, sentence, changes=Changes(forbid=(("source", item),)))
        assert wanted.outputs[0].text in page.locator(".outcome").inner_text()
        page.locator('[data-key="undo"]').click()
        page.locator(".outcome").wait_for(state="detached")


def test_what_fails_is_not_kept(page):
    page.evaluate("location.hash = 'off=[[\"nowhere\",0]]'")
    page.locator(".wrong").wait_for()
    assert "no attention module 'nowhere'" in page.locator(".wrong").inner_text()
    page.locator(".token-switch >> nth=1").click()
    page.locator(".outcome").wait_for()  # a later wish does not fail with it
    assert page.locator(".wrong").count() == 0


def test_a_typed_sentence_stays_until_it_is_looked_at(page):
    box = page.get_by_label("Input")
    box.fill("half of a sent")
    page.locator("#tab-lines").click()
    assert box.input_value() == "half of a sent"
    page.set_viewport_size({"width": 900, "height": 800})
    page.locator(".token-switch >> nth=1").click()
    page.locator(".outcome").wait_for()
    assert box.input_value() == "half of a sent"
    box.fill("word " * 300)
    page.get_by_role("button", name="Look", exact=True).click()
    page.locator(".wrong").wait_for()
    assert box.input_value() == "word " * 300
    box.fill(OTHER)
    page.get_by_role("button", name="Look", exact=True).click()
    page.locator(".spoken.input .spoken-text", has_text=OTHER).wait_for()
    assert box.input_value() == OTHER


def test_the_address_holds_view_sentence_and_what_if(page):
    page.get_by_label("Input").fill(OTHER)
    page.get_by_role("button", name="Look", exact=True).click()
    page.locator(".spoken.input .spoken-text", has_text=OTHER).wait_for()
    page.locator("#tab-lines").click()
    page.locator(".token-switch >> nth=1").click()
    page.locator(".token-switch[aria-pressed=true]").wait_for()
    page.locator(".busy").wait_for(state="detached")
    said = page.locator(".spoken.output .spoken-text").inner_text()
    page.reload()
    page.locator(".token-switch[aria-pressed=true]").wait_for()
    page.locator(".busy").wait_for(state="detached")
    assert page.locator("#tab-lines").get_attribute("aria-selected") == "true"
    assert page.locator(".spoken.input .spoken-text").inner_text() == OTHER
    assert page.locator(".spoken.output .spoken-text").inner_text() == said


def test_back_goes_through_views(page):
    for view in ("lines", "steps"):
        page.locator(f"#tab-{view}").click()
    page.go_back()
    assert page.locator("#tab-lines").get_attribute("aria-selected") == "true"
    page.go_back()
    assert page.locator("#tab-grid").get_attribute("aria-selected") == "true"
    page.go_forward()
    assert page.locator("#tab-lines").get_attribute("aria-selected") == "true"


def test_the_sentence_box_is_at_the_top_of_a_phone(browser, run, sentence):
    with (
        serving(create(run, sentence)) as address,
        opened(browser, address, offline=False, width=390, height=844) as page,
    ):
        assert page.get_by_label("Input").bounding_box()["y"] < 300
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_numbers_of_heads_without_room_are_fetched(browser, run, sentence, monkeypatch):
    monkeypatch.setattr("regard.inspection.format.ROOM", 0)
    with serving(create(run, sentence)) as address, opened(browser, address, offline=False) as page:
        page.locator("#tab-steps").click()
        page.locator("table.steps").wait_for()
        assert any("/api/step?" in url for url in page.asked)
