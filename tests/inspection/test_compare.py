"""Comparison of several models on one sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
from browser import opened

from regard.core.errors import RegardError
from regard.core.inspectable import Axis, Item, Output
from regard.inspection.collect import inspect
from regard.inspection.compare import COLUMNS, table, to_page
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import Inspection, Map


@pytest.fixture
def inspections(subject, sentence):
    return [inspect(subject(name), sentence) for name in ("seq2seq", "luong")]


def test_a_row_a_run_with_what_is_known(inspections):
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in table(inspections)]
    assert [row["model"] for row in rows] == ["seq2seq", "luong"]
    assert all(row["parameters"] > 0 and row["seconds"] >= 0 and row["output"] for row in rows)
    assert rows[0]["alignment error"] is None
    assert rows[1]["log p"] == round(inspections[1].outputs[0].score, 4)


def test_the_page_holds_every_run(inspections):
    data = json.loads(json.dumps(to_page(inspections)))
    assert [len(run["maps"]) for run in data["runs"]] == [0, 1]
    assert len(data["table"]) == 2
    assert data["columns"] == [name for name in COLUMNS if name != "alignment error"]  # it is not known here


def test_it_takes_two_runs_and_one_input(inspections, subject, task):
    with pytest.raises(RegardError, match=r"cannot compare 1 run; give two or more"):
        table(inspections[:1])
    different = inspect(subject(), task.split("train")[1][0])
    with pytest.raises(RegardError, match=r"the runs have different inputs; compare them on the same input"):
        table([inspections[0], different])


def wide(columns=240):
    """A map of few rows and many columns."""
    items = tuple(Item(str(i)) for i in range(columns))
    axes = {"source": Axis(items, "source"), "target": Axis(items[:6], "target")}
    weights = np.full((2, 6, columns), 1 / columns, np.float32)
    inspections = Map("cross.0", "cross.0", "target", "source", weights, "g", "Target → source")
    return Inspection("so", "model", "translation", axes, (inspections,), outputs=(Output("so"),))


@pytest.mark.parametrize("width", [360, 1400])
def test_a_wide_map_is_whole_beside_another_and_says_what_its_colours_mean(browser, tmp_path, width):
    path = tmp_path / "page.html"
    path.write_text(bundle(to_page([wide(), wide(30)])), encoding="utf-8")
    with opened(browser, path.as_uri(), width=width) as page:
        assert page.locator(".compared .legend").count() == 2
        frame = page.locator("[data-run='0'] .matrix")
        assert frame.evaluate("one => one.scrollWidth - one.clientWidth") <= 1
        box = frame.locator(".cells").bounding_box()
        page.mouse.move(box["x"] + box["width"] - 0.3, box["y"] + box["height"] - 1)
        on = frame.locator("text.on").evaluate_all("all => all.map(one => one.firstChild.data)")
        assert set(on) == {"5", "239"}  # the pointer is over the last row and column


def test_a_map_too_long_to_stand_there_says_so(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(bundle(to_page([wide(300), wide(30)])), encoding="utf-8")
    with opened(browser, path.as_uri()) as page:
        assert (
            page.locator("[data-run='0'] .no-map").inner_text()
            == "This map is too long to show here; inspect this run."
        )
