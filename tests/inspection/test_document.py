"""The document view with sentences and words, in a browser."""

import pytest
import torch
from browser import opened

from regard.inspection.collect import InspectionTarget, RunInfo, collect
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import to_json
from regard.models import flat_attention, hierarchical
from regard.tasks import classification


def inspection(module):
    torch.manual_seed(0)
    task = classification.build(classification.TINY)
    model = module.build(module.TINY, task.spec).eval()
    text = next(iter(task.documents["valid"])).text
    return collect(InspectionTarget(task, model, None, RunInfo("classification", module.__name__)), text)


@pytest.fixture(scope="module")
def levels():
    return inspection(hierarchical)


def write(tmp_path, page_data):
    (tmp_path / "x.html").write_text(bundle(to_json(page_data)), encoding="utf-8")
    return (tmp_path / "x.html").as_uri()


def test_a_sentence_opens_by_a_click(browser, levels, tmp_path):
    with opened(browser, write(tmp_path, levels), fragment="#view=document") as page:
        sentences = page.locator(".document-sentence")
        assert sentences.count() == len(levels.axes["sentences"].items)
        assert page.locator(".document-sentence.open").count() == 1  # the sentence with the largest weight
        second = next(i for i in range(sentences.count()) if "open" not in sentences.nth(i).get_attribute("class"))
        sentences.nth(second).locator("button").click()
        assert f"row={second}" in page.url
        words = page.locator(".document-sentence.open .document-word")
        assert words.count() == len(levels.axes[f"words.{second}"].items)
        page.locator(".document-sentence.open button").click()
        assert page.locator(".document-sentence.open").count() == 0
        deciding = levels.extra["document"]["deciding"]["words"]
        expected = [levels.extra["document"]["text"][start:stop] for start, stop in deciding]
        assert page.locator(".document-word.deciding").all_inner_texts() == expected


def test_a_flat_model_shades_the_whole_text(browser, tmp_path):
    page_data = inspection(flat_attention)
    with opened(browser, write(tmp_path, page_data), fragment="#view=document") as page:
        assert page.locator(".document-word").count() == len(page_data.axes["document"].items)
        assert page.locator(".document-flat").inner_text() == page_data.extra["document"]["text"]
