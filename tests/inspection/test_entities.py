"""The view of a text with its entities, in a browser."""

import pytest
import torch
from browser import opened

from regard.inspection.collect import InspectionTarget, RunInfo, collect
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import to_json
from regard.models import tagger
from regard.tasks import tagging

TEXT = "Anna lived in Paris."


@pytest.fixture(scope="module")
def inspection():
    torch.manual_seed(0)
    task = tagging.build(tagging.TINY)
    model = tagger.build(tagger.TINY, task.spec)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(15):
        for values in task.epoch_batches(epoch, 1):
            loss = task.loss(model, task.collate(values))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
    return collect(InspectionTarget(task, model.eval(), None, RunInfo("tagging", "tagger")), TEXT)


def test_entities_are_coloured_and_a_unit_shows_where_it_looked(browser, inspection, tmp_path):
    (tmp_path / "x.html").write_text(bundle(to_json(inspection)), encoding="utf-8")
    with opened(browser, (tmp_path / "x.html").as_uri(), fragment="#view=entities") as page:
        units = page.locator(".entities-unit")
        assert units.all_inner_texts() == ["Anna", "lived", "in", "Paris", "."]
        assert page.locator(".entities-text").inner_text() == TEXT
        result = inspection.extra["entities"]["entities"]
        names = [TEXT[entity["start"] : entity["stop"]] for entity in result]
        assert page.locator(".entities-unit.entity").all_inner_texts() == " ".join(names).split()
        units.nth(3).click()
        assert "row=3" in page.url
        detail = page.locator(".entities-detail")
        assert detail.locator("h2").inner_text().startswith("Paris")
        assert detail.locator(".alternatives .share").count() >= 2
        assert detail.locator(".entities-attention").inner_text() == TEXT
