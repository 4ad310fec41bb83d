"""The page of a recommendation, in a real browser: user, list, reasons, users × items, items in two dimensions."""

import pytest
import torch
from browsing import opened

from regard.inspection.bundle import bundle
from regard.inspection.collect import About, Subject, inspect
from regard.inspection.format import to_json
from regard.models import recommender
from regard.tasks import recommendation


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    torch.manual_seed(0)
    task = recommendation.build(recommendation.TINY)
    model = recommender.build(recommender.TINY, task.sizes).eval()
    inspection = inspect(Subject(task, model, None, About("recommendation", "recommender")), task.examples[0])
    path = tmp_path_factory.mktemp("page") / "x.html"
    path.write_text(bundle(to_json(inspection)), encoding="utf-8")
    return path.as_uri(), inspection.extra["recommendation"]


def test_user_list_reasons_maps_and_places(browser, shown):
    address, raw = shown
    with opened(browser, address, fragment="#view=recommendation") as page:
        titles = page.locator(".recommended strong").all_inner_texts()
        assert titles == [one["title"] for one in raw["list"]]
        assert page.locator(".history li").count() == len(raw["history"])
        assert f"Without {raw['list'][0]['reasons'][0]['name']}: no." in page.locator(".check").first.inner_text()
        assert page.locator(".users-items canvas").count() == 1
        assert page.locator(".scatter .dot.on").count() == len(raw["list"])
        assert page.locator("input[name=more]").count() == 0  # from disk nothing can be asked
