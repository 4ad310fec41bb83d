"""Translation of the page: every text in English and Korean, selected by the language of the browser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import examples
import pytest
from browser import opened
from page_strings import page_strings, table, without_strings

from regard.core.inspectable import Output
from regard.inspection.html_bundle import PAGE, bundle
from regard.inspection.json_format import Stage, to_json

TASKS = Path(__file__).parents[2] / "src" / "regard" / "tasks"
HANGUL = re.compile(r"[가-힣]")
SILENT = {"regard", "log p ", " log p ", " · p "}  # the same in every language


def test_every_text_is_in_the_table_and_every_entry_is_said():
    assert set(page_strings()) == set(table("KOREAN"))


def test_every_entry_is_korean_and_takes_the_same_values():
    for english, korean in table("KOREAN").items():
        assert HANGUL.search(korean) or not re.search("[A-Za-z]", re.sub(r"\{\d+\}", "", korean)), english
        assert sorted(re.findall(r"\{\d+\}", english)) == sorted(set(re.findall(r"\{\d+\}", korean))), english


def test_what_tasks_call_their_axes_has_a_korean_name():
    titles = {
        title
        for path in TASKS.rglob("*.py")
        for title in re.findall(r"Axis\(.*?, \"([a-z ]+)\"", path.read_text(encoding="utf-8"))
    }
    assert titles and titles <= set(table("TERMS"))
    assert all(map(HANGUL.search, table("TERMS").values()))


DISPLAYED_TEXT = re.compile(
    r"\b(?:title|label|\"aria-label\"|\"aria-description\"|subtitle): (?:\"([^\"]+)\"|`([^`]+)`)"
    r"|make\(\"\w+\", \{[^{}]*\}, (?:\"([^\"]+)\"|`([^`]+)`)"
    r"|\b(?:select|choice)\(\"([^\"]+)\""
)


@pytest.mark.parametrize("path", sorted(PAGE.rglob("*.js")), ids=lambda path: path.name)
def test_nothing_is_shown_that_is_not_in_the_table(path):
    result = DISPLAYED_TEXT.findall(without_strings(path.read_text(encoding="utf-8")))
    texts = [next(filter(None, match)) for match in result if any(match)]
    assert [text for text in texts if re.search("[A-Za-z]{2}", text) and text not in SILENT] == []


def test_a_korean_browser_reads_korean_and_the_data_stays_as_it_is(browser, tmp_path):
    result = examples.translation(2, 4)
    path = tmp_path / "page.html"
    path.write_text(bundle(to_json(result)), encoding="utf-8")
    data_texts = [*examples.SOURCE, result.title, result.model, result.task, *map(str, result.facts.values())]
    names = [
        "regard",
        "log",
        "softmax",
        "Softmax",
        "sinusoidal",
        "PCA",
        "letter",
        "reads",
        "student",
    ]  # names and words
    allowed = {*names, *re.findall(r"[A-Za-z]+", " ".join(data_texts))}
    with opened(browser, path.as_uri(), locale="ko-KR") as page:
        assert page.locator("html").get_attribute("lang") == "ko"
        tabs = page.locator(".tab")
        assert "모든 헤드" in tabs.all_inner_texts() and "Alignment" not in tabs.all_inner_texts()
        for index in range(tabs.count()):
            tabs.nth(index).click()
            words = set(re.findall(r"[A-Za-z]{2,}", page.locator("body").inner_text()))
            assert words - allowed == set(), tabs.nth(index).inner_text()
    with opened(browser, path.as_uri(), locale="de-DE") as page:
        assert page.locator("html").get_attribute("lang") == "en"
        assert "All heads" in page.locator(".tab").all_inner_texts()


def test_what_a_task_tells_in_a_line_and_the_names_of_steps_are_korean(browser, tmp_path):
    result = examples.translation(2, 4)
    values = result.steps[0].stages[0].values
    stages = tuple(Stage(name, values) for name in ("score", "with positions"))
    lines = {
        "a.mid: 24 tokens, 0.415 nats each": "a.mid: 토큰 24개, 토큰당 0.415내트",
        "0.649 bits per dimension": "차원당 0.649비트",
    }
    steps = tuple(replace(step, stages=stages) for step in result.steps)
    for index, (english, korean) in enumerate(lines.items()):
        changed = replace(
            result,
            outputs=(Output(english),),
            steps=steps,
            title="a.png made to 28x28",
            extra={"roll": {"notes": [[0.0, 2.0, 60, 0, 90]], "voices": []}},
        )
        path = tmp_path / f"{index}.html"
        path.write_text(bundle(to_json(changed)), encoding="utf-8")
        with opened(browser, path.as_uri(), fragment="#view=steps", locale="ko-KR") as page:
            assert page.locator(".output .spoken-text [title]").get_attribute("title") == korean
            assert page.locator(".input .spoken-text").inner_text() == "a.png, 28x28로 생성"
            assert {"점수", "위치 반영"} <= set(page.locator(".steps thead th").all_inner_texts())
