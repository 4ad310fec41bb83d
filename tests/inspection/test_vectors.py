"""The word vector view, in a browser."""

import pytest
import torch
from browser import opened

from regard.core.data_specs import EmbeddingSpec
from regard.inspection.collect import InspectionTarget, RunInfo, inspect
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import to_json
from regard.models import skipgram
from regard.tasks import embeddings
from regard.tasks.embeddings.word_space import Term


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("text")
    (folder / "x.txt").write_text("king queen man woman apple pear plum cherry dog cat " * 60)
    task = embeddings.build(embeddings.Config(paths=(str(folder),), min_frequency=1, length=8))
    model = skipgram.build(skipgram.Config(dim=32), EmbeddingSpec(task.spec.vocab_size)).eval()
    inspection = inspect(InspectionTarget(task, model, None, RunInfo("embeddings", "skipgram")), "king")
    path = folder / "x.html"
    path.write_text(bundle(to_json(inspection)), encoding="utf-8")
    return path.as_uri(), task.word_space(model)


def listed(page):
    return page.locator(".view-vectors .share-label").all_inner_texts()


def test_neighbours_and_sums_are_those_of_python(browser, shown):
    address, space = shown
    with opened(browser, address, fragment="#view=vectors") as page:
        assert page.locator(".scatter .dot").count() == 10
        assert listed(page)[:3] == [near.word for near in space.nearest([Term("king", 1)], 3)]
        page.locator("input[name=sum]").fill("king - man + woman")
        page.get_by_role("button", name="Nearest").click()
        terms = [Term("king", 1), Term("man", -1), Term("woman", 1)]
        assert listed(page)[:2] == [near.word for near in space.nearest(terms, 2)]
        page.get_by_role("radio", name="PCA").click()
        assert "method=PCA" in page.url


def test_a_word_that_is_not_there_is_named(browser, shown):
    with opened(browser, shown[0], fragment="#view=vectors&sum=xyzzy") as page:
        assert "xyzzy is not among these words" in page.locator(".wrong").inner_text()
