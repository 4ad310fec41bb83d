"""The next-token view, in a browser."""

import pytest
import torch
from browser import opened

from regard.decoding import strategy
from regard.inspection.collect import InspectionTarget, RunInfo, collect
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import to_json
from regard.models import gpt
from regard.tasks import language


@pytest.fixture(scope="module")
def inspection(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("text")
    (folder / "x.txt").write_text("the cat sat on the mat and the dog sat on the rug\n" * 30)
    task = language.build(language.Config(paths=(str(folder),), tokenizer="word", context=16))
    model = gpt.build(gpt.TINY, task.spec).eval()
    subject = InspectionTarget(
        task, model, strategy.build("sample"), RunInfo("language", "gpt"), language.Options(tokens=5)
    )
    return collect(subject, "the cat sat on")


def test_a_token_shows_what_else_might_have_stood_there(browser, inspection, tmp_path):
    (tmp_path / "x.html").write_text(bundle(to_json(inspection)), encoding="utf-8")
    with opened(browser, (tmp_path / "x.html").as_uri(), fragment="#view=next_token") as page:
        tokens = page.locator(".view-next_token .answer-token")
        output = inspection.outputs[0]
        assert tokens.count() == len(output.tokens) >= 4
        assert tokens.all_inner_texts()[:4] == ["the", "cat", "sat", "on"]
        tokens.nth(1).click()
        assert "row=1" in page.url
        labels = page.locator(".alternatives .share-label").all_inner_texts()
        assert labels[: len(output.tokens[1].alternatives)] == [text for text, _ in output.tokens[1].alternatives]
        assert page.locator(".alternatives .chosen .share-label").inner_text() == "cat"
        assert page.locator(".alternatives button").count() == 0  # without a server the text cannot be continued


def test_where_served_an_alternative_is_gone_on_from(browser, inspection, tmp_path):
    data = {**to_json(inspection), "server": "/api", "id": "1"}
    (tmp_path / "x.html").write_text(bundle(data), encoding="utf-8")
    with opened(browser, (tmp_path / "x.html").as_uri(), fragment="#view=next_token&row=1") as page:
        page.evaluate(
            "() => { window.fetch = async (url, options) => { window.asked = JSON.parse(options.body).text;"
            " return { ok: false, json: async () => ({ error: 'enough' }) } } }"
        )
        second = page.locator(".alternatives button").first
        word = second.inner_text().removesuffix(" ›")
        second.click()
        page.wait_for_function("window.asked")
        assert page.evaluate("window.asked") == f"the {word}"
