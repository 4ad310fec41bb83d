"""Keyboard control of the page: Tab, arrows, Enter, Space, Escape and visible focus."""

from __future__ import annotations

import examples
import pytest
from browser import opened

from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import to_json

FOCUSED = "document.activeElement.getAttribute('{}')"
# A focused element has an outline, or is a colored label of a map.
SEEN = """() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const lined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  const seen = one === document.body || lined || one.matches(".line-word, .aligned, .answer-token");
  return seen ? "" : one.outerHTML.slice(0, 120);
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("keyboard") / "page.html"
    path.write_text(bundle(to_json(examples.translation(3, 8))), encoding="utf-8")
    return path.as_uri()


def test_a_choice_takes_the_focus_with_it(browser, address):
    with opened(browser, address, fragment="#view=grid") as page:
        page.locator("[aria-label=Kind] [aria-checked=true]").focus()
        for _ in range(2):
            page.keyboard.press("ArrowLeft")
            assert page.evaluate(FOCUSED.format("aria-checked")) == "true"
        assert "map=encoder" in page.url


def test_tab_passes_all_heads_in_one_step_and_arrows_move_among_them(browser, address):
    with opened(browser, address, fragment="#view=grid") as page:
        assert page.locator(".thumb").count() == 24
        page.locator("[aria-label=Kind] [aria-checked=true]").focus()
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED.format("aria-pressed")) == "true"
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Space")
        assert "map=cross.2" in page.url or "map=cross.1" in page.url
        assert "head=1" in page.url and page.evaluate(FOCUSED.format("aria-pressed")) == "true"
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED.format("data-key")) == "matrix"


def test_the_training_plays_and_its_steps_are_moved_by_keys(browser, address):
    with opened(browser, address, fragment="#view=training&probe=2") as page:
        play = page.locator("[data-key=play]")
        play.focus()
        page.keyboard.press("Space")
        assert play.inner_text() == "Pause"
        page.keyboard.press("Enter")
        assert play.inner_text() == "Play"
        slider = page.locator(".scrubber")
        slider.focus()
        before = slider.input_value()
        page.keyboard.press("ArrowLeft")
        assert int(slider.input_value()) == int(before) - 1
        assert slider.get_attribute("aria-valuetext").startswith("step ")


def test_escape_closes_what_a_token_opens(browser, address):
    with opened(browser, address, fragment="#view=grid") as page:
        page.locator(".answer-token >> nth=0").focus()
        assert page.locator(".popover").is_visible()
        page.keyboard.press("Escape")
        assert page.locator(".popover").is_hidden()


@pytest.mark.parametrize("view", ["grid", "lines", "alignment", "steps", "positions", "embeddings", "training"])
def test_the_focus_is_always_seen_and_has_a_name(browser, address, view):
    with opened(browser, address, fragment=f"#view={view}") as page:
        for _ in range(45):
            page.keyboard.press("Tab")
            assert page.evaluate(SEEN) == ""
        nameless = page.evaluate(
            "[...document.querySelectorAll('button, select, input, textarea, [tabindex=\"0\"]')].filter((one) =>"
            " !(one.getAttribute('aria-label') || one.closest('label')?.innerText.trim() || one.innerText?.trim()"
            " || one.title))"
            ".map((one) => one.outerHTML.slice(0, 120))"
        )
        assert nameless == []
