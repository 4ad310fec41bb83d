"""The recommendation page in a browser: user, list, reasons, users × items, items in two dimensions."""

import pytest
import torch
from browser import opened, serving

from regard.inspection.collect import InspectionTarget, RunInfo, inspect
from regard.inspection.html_bundle import bundle
from regard.inspection.interventions import NO_INTERVENTIONS
from regard.inspection.json_format import to_json
from regard.models import recommender
from regard.serve.inspections import Session
from regard.tasks import recommendation


@pytest.fixture(scope="module")
def subject():
    torch.manual_seed(0)
    task = recommendation.build(recommendation.TINY)
    model = recommender.build(recommender.TINY, task.spec).eval()
    return InspectionTarget(task, model, None, RunInfo("recommendation", "recommender"))


@pytest.fixture(scope="module")
def shown(subject, tmp_path_factory):
    inspection = inspect(subject, subject.task.examples[0])
    path = tmp_path_factory.mktemp("page") / "x.html"
    path.write_text(bundle(to_json(inspection)), encoding="utf-8")
    return path.as_uri(), inspection.extra["recommendation"]


def test_user_list_reasons_maps_and_places(browser, shown):
    address, raw = shown
    with opened(browser, address, fragment="#view=recommendation") as page:
        titles = page.locator(".recommended strong").all_inner_texts()
        assert titles == [item["title"] for item in raw["list"]]
        assert page.locator(".history li").count() == len(raw["history"])
        assert f"Without {raw['list'][0]['reasons'][0]['name']}: rank " in page.locator(".check").first.inner_text()
        assert page.locator(".users-items canvas").count() == 1
        assert page.locator(".scatter .dot.on").count() == len(raw["list"])
        assert page.locator("input[name=more]").count() == 0  # a page from disk cannot send requests


def test_names_of_items_stay_inside_their_picture(browser, shown):
    address, _ = shown
    with opened(browser, address, fragment="#view=recommendation", width=390) as page:
        edges = "(all) => all.map((one) => one.getBoundingClientRect()).map((box) => [box.left, box.right])"
        [(remaining, right)] = page.locator(".scatter").evaluate_all(edges)
        names = page.locator(".scatter text").evaluate_all(edges)
        assert names and all(remaining <= low and high <= right for low, high in names)


def test_served_another_profile_or_history_gives_another_list(subject):
    """Return the request that the page sends when profile or history are edited."""
    session, titles = Session(subject), subject.task.data.items.titles
    texts = ["age=20, occupation=artist | ", "age=70, occupation=farmer | ", f"age=20 | {titles[0]}; {titles[1]}"]
    pages = [session.inspect(text, NO_INTERVENTIONS)["extra"]["recommendation"] for text in texts]
    assert pages[2]["history"] == [titles[0], titles[1]] and pages[2]["remarks"] == ["not specified: occupation"]
    lists = [[item["title"] for item in page["list"]] for page in pages]
    scores = [[item["score"] for item in page["list"]] for page in pages]
    assert titles[0] not in lists[2] and scores[0] != scores[1]


def test_what_was_typed_is_kept_where_it_is_refused(browser, subject):
    app = pytest.importorskip("regard.serve.app").explorer_app(subject, subject.task.examples[0])
    with serving(app) as address, opened(browser, address, offline=False, expected="400 (Bad Request)") as page:
        page.locator("[data-key='field:age']").fill("20")
        page.locator("[data-key='more']").fill("The Silnt Nothing")
        page.get_by_role("button", name="Recommend", exact=True).click()
        page.locator(".wrong").wait_for()  # one message, at the input
        assert "no item 'The Silnt Nothing' in the data" in page.locator(".wrong").inner_text()
        assert page.locator("[data-key='more']").input_value() == "The Silnt Nothing"
        assert page.locator("[data-key='field:age']").input_value() == "20"
        page.locator("[data-key='more']").fill("")
        page.get_by_role("button", name="Recommend", exact=True).click()
        page.locator(".remark", has_text="not told").or_(page.locator("h2", has_text="A new user")).first.wait_for()
        assert page.locator(".wrong").count() == 0
