"""The first thing on a page is the result of its task, in the form of the task; remarks name what the model lacks."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import examples
import numpy as np
import PIL.Image as image_module
import pytest
from browser import opened
from task_targets import TASKS, target_of

import regard
from regard.core.inspectable import Axis, Item, Output
from regard.data.text.unknown_words import find_unknown_words
from regard.inspection.collect import collect, inspect_quickly
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import Inspection, to_json
from regard.inspection.report import target_of as target_of_run
from regard.training.load_run import load_run

MARKUP = re.compile(r"<\w|:\w+>|log p|\bnats\b|\bbits\b|−\d")
WITHOUT_PROBABILITY = ("boxes", "canvas", "recommendation", "roll", "vectors")  # keys of `extra`


def write(path, result):
    path.write_text(bundle(to_json(result)), encoding="utf-8")
    return path.as_uri()


def as_percent(score):
    """Return a log probability as the page shows it."""
    share = 100 * math.exp(score)
    if share < 0.05:
        return "<0.1%"
    return f"{share:.{0 if share >= 99.95 or 10 <= share < 99 else 1}f}%"


def expected_probability(output):
    """Return the probability next to an output; of a long output, the mean of its tokens."""
    if math.exp(output.score) >= 0.0005 or len(output.tokens) < 2:
        return as_percent(output.score)
    return f"{as_percent(output.score / len(output.tokens))} per token"


@pytest.mark.parametrize("name", TASKS)
def test_a_page_opens_with_the_result_in_the_form_of_its_task(browser, tmp_path, name):
    target = target_of(name, tmp_path)
    result = collect(target, target.task.examples[0])
    assert result.views
    for width in (1440, 390):
        with opened(browser, write(tmp_path / "page.html", result), width=width) as page:
            opening = page.get_by_role("tab").first
            assert opening.get_attribute("aria-selected") == "true"
            assert opening.get_attribute("id") == f"tab-{result.views[0]}"
            headline = page.locator(".output .spoken-text")
            assert not MARKUP.search(headline.inner_text()), headline.inner_text()
            shown = page.locator(".output > .figure").all_inner_texts()
            if any(key in result.extra for key in WITHOUT_PROBABILITY):
                assert shown == []
            else:
                assert [text.strip() for text in shown] == [expected_probability(result.outputs[0])]
            assert page.evaluate("window.scrollY") == 0
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


SENTENCE = "🍎 Qqzzx met Wwyyv <b>in</b> ﷼ 🎬"


@pytest.mark.parametrize("name", ["translation", "classification", "tagging", "language", "masked_language"])
def test_words_that_training_never_saw_are_named_in_the_page(browser, tmp_path, name):
    run = regard.load(f"pretrained:{name}")
    text = f"{SENTENCE} [MASK]" if name == "masked_language" else SENTENCE
    result = inspect_quickly(target_of_run(run), text)
    assert result.remarks == run.predict([text])[0][0].remarks  # as the command line and JSON name them
    assert "🎬" in result.remarks[0] and ("Qqzzx" in result.remarks[0] or name == "language")
    for locale, start in (("en-US", "not in the vocabulary"), ("ko-KR", "어휘에 없거나")):
        with opened(browser, write(tmp_path / "page.html", result), locale=locale) as page:
            remark = page.locator(".remark").inner_text()
            assert remark.startswith(start) and remark.endswith(result.remarks[0].split(": ", 1)[1])


def test_the_page_names_the_words_of_the_tokenizer(tmp_path):
    target = target_of_run(load_run("pretrained:translation"))
    words = find_unknown_words("zzz qqq sleeps", target.task.vocabularies.source)
    assert words == ("zzz", "qqq")
    assert inspect_quickly(target, "zzz qqq sleeps").remarks[0].endswith(": zzz, qqq")


def test_a_text_that_is_read_in_part_says_so(browser, tmp_path):
    for name in ("tagging", "classification"):
        target = target_of_run(load_run(f"pretrained:{name}"))
        result = inspect_quickly(target, "Anna met David in Rome. " * 2000)
        if name == "tagging":
            shown = len(result.axes["units"].items)
            remark = f"only the first {shown:,} of {6 * 2000:,} words or characters are shown"
        else:
            read = sum(len(axis.items) for key, axis in result.axes.items() if key.startswith("words."))
            remark = f"only the first {read} of {6 * 2000} tokens are read"
        assert result.remarks[0] == remark
        with opened(browser, write(tmp_path / f"{name}.html", replace(result, maps=(), steps=()))) as page:
            assert page.locator(".remark").first.inner_text() == remark


@pytest.mark.parametrize("name", ["captioning", "detection", "image_classification", "image_generation"])
def test_a_changed_image_says_so(browser, tmp_path, name):
    target = target_of(name, tmp_path)
    pixels = np.random.default_rng(1).integers(0, 256, (30, 20, 4), dtype=np.uint8)
    image_module.fromarray(pixels).save(tmp_path / "photo.png")
    result = inspect_quickly(target, str(tmp_path / "photo.png"))
    assert result.remarks[0] == "transparent: placed on a white background"
    assert re.fullmatch(r"30x20 pixels: resized to \d+x\d+", result.remarks[1]) and "(" not in result.title
    with opened(browser, write(tmp_path / "page.html", result), locale="ko-KR") as page:
        size = re.findall(r"\d+", result.remarks[1])
        assert page.locator(".remark").all_inner_texts() == [
            "투명한 이미지: 흰 배경 위에 놓음",
            f"20 × 30 픽셀: {size[3]} × {size[2]}로 크기 조정",
        ]


def test_characters_of_two_units_do_not_shift_the_highlights(browser, tmp_path):
    text = "🍎🎬 May saw 🏛 Rome"
    spans = [match.span() for match in re.finditer(r"\S+", text)]  # in characters, as tasks count them
    units = Axis(
        tuple(Item(text[start:stop], word=i, span=(start, stop)) for i, (start, stop) in enumerate(spans)), "u"
    )
    entities = [{"start": text.index(word), "stop": text.index(word) + len(word), "type": kind}
                for word, kind in (("May", "person"), ("Rome", "place"))]  # fmt: skip
    tokens = tuple(examples.tokens()[i] for i in range(len(spans)))
    data = {"text": text, "entities": entities, "tags": ["O"] * len(spans), "firsts": list(range(len(spans)))}
    extra = {"entities": data | {"types": ["person", "place"]}}
    result = Inspection(text, "tagger", "tagging", {"units": units}, (), outputs=(Output(text, -0.1, -0.1, tokens),),
                        views=("entities",), extra=extra)  # fmt: skip
    with opened(browser, write(tmp_path / "page.html", result)) as page:
        shown = page.locator(".output .entity").evaluate_all("all => all.map(word => word.firstChild.data)")
        assert shown == ["May", "Rome"]
        assert page.locator(".entities-unit").all_inner_texts() == text.split()
        assert page.locator(".entities-unit.entity").all_inner_texts() == ["May", "Rome"]


def test_words_of_a_document_with_emoji_are_shaded_in_their_place(browser, tmp_path):
    target = target_of_run(load_run("pretrained:classification"))
    result = inspect_quickly(target, "🍎🎬 I loved it. The food was 🍎 cold.")
    with opened(browser, write(tmp_path / "page.html", result)) as page:
        shown = [text.strip() for text in page.locator(".document-word").all_inner_texts()]
        assert [text for text in shown if text.isalpha()] == "I loved it The food was cold".split()
