"""The view of a text with masked words, in a browser."""

import pytest
import torch
from browser import opened

from regard.inspection.collect import InspectionTarget, RunInfo, collect
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import to_json
from regard.models import bert, xlnet
from regard.tasks import masked_language


@pytest.mark.parametrize("module", [bert, xlnet], ids=["bert", "xlnet"])
def test_every_gap_has_its_candidates(browser, module, tmp_path):
    torch.manual_seed(0)
    (tmp_path / "x.txt").write_text("the cat sat on the mat and the dog sat on the rug\n" * 30)
    task = masked_language.build(masked_language.Config(paths=(str(tmp_path / "x.txt"),), tokenizer="word", context=16))
    model = module.build(module.TINY, task.spec).eval()
    inspection = collect(
        InspectionTarget(task, model, None, RunInfo("masked_language", "x")), "the [MASK] sat on the [MASK]"
    )
    (tmp_path / "x.html").write_text(bundle(to_json(inspection)), encoding="utf-8")
    with opened(browser, (tmp_path / "x.html").as_uri(), fragment="#view=masked") as page:
        gaps = page.locator(".gapped button")
        tokens = inspection.outputs[0].tokens
        assert gaps.all_inner_texts() == [token.text for token in tokens]
        gaps.nth(1).click()
        labels = page.locator(".distribution .share-label").all_inner_texts()
        assert labels == [text for text, _ in tokens[1].alternatives]
        ways = page.locator(".nbest-plain li").all_inner_texts()
        assert len(ways) == 5 and ways[0].startswith(inspection.outputs[0].text)
