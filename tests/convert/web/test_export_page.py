"""The exported page in Chromium: from disk, without a network."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "inspection"))

from browser import opened

from regard.convert.export_run import export_run
from regard.core.errors import ConfigError
from regard.core.registry import registered_names


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("web") / "translation.html"
    export_run(Path("pretrained:translation"), "web", path)
    return path


def answered(page, text):
    """Type a sentence and wait for its output."""
    page.fill("textarea.ask", text)
    page.press("textarea.ask", "Enter")
    page.wait_for_selector(f"h1:has-text({text!r})", state="attached")
    page.wait_for_selector("form.asking button:not([disabled])")
    return page.inner_text(".spoken.output .spoken-text")


@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
def test_a_new_sentence_is_translated_in_the_page(browser, page_file, locale):
    with opened(browser, page_file.as_uri(), width=390, locale=locale) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        first = answered(page, "My father buys three apples in the market.")
        assert page.locator("[role=tab]").count() >= 4
        page.click('[data-key="off:decoder.layers.0.cross_attn:0"]')
        page.wait_for_selector(".outcome")
        assert first in page.inner_text(".outcome")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_an_input_without_words_is_refused_in_the_page(browser, page_file):
    with opened(browser, page_file.as_uri()) as page:
        page.fill("textarea.ask", "word " * 300)
        page.press("textarea.ask", "Enter")
        page.wait_for_selector(".asking [role=alert]")
        assert "the model was trained for at most 256" in page.inner_text(".asking [role=alert]")


def test_a_page_over_the_limit_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.convert.web.export_page.MAX_FILE_BYTES", 1000)
    with pytest.raises(
        ConfigError, match=r"page.html: the page has 3.\d MB, more than 0 MB in one file; give a folder"
    ):
        export_run(Path("pretrained:translation"), "web", tmp_path / "page.html")
    export_run(Path("pretrained:translation"), "web", tmp_path / "site")
    assert (tmp_path / "site" / "index.html").stat().st_size > 1000


def test_a_task_that_the_page_cannot_run_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.convert.web.model_file.registered_names", lambda _: ("captioning", "translation"))
    with pytest.raises(
        ConfigError, match=r"^web: embeddings runs cannot be exported; supported: captioning, translation$"
    ):
        export_run(Path("pretrained:embeddings"), "web", tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_every_task_has_a_page():
    assert registered_names("regard.convert.web.tasks") == registered_names("regard.tasks")
