"""The same sentence through several models."""

from __future__ import annotations

import json

import pytest

from regard.core.errors import RegardError
from regard.inspection.collect import inspect
from regard.inspection.compare import COLUMNS, table, to_page


@pytest.fixture
def found(subject, sentence):
    return [inspect(subject(name), sentence) for name in ("seq2seq", "luong")]


def test_a_row_a_run_with_what_is_known(found):
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in table(found)]
    assert [row["model"] for row in rows] == ["seq2seq", "luong"]
    assert all(row["parameters"] > 0 and row["seconds"] >= 0 and row["output"] for row in rows)
    assert rows[0]["alignment error"] is None
    assert rows[1]["log p"] == round(found[1].outputs[0].score, 4)


def test_the_page_holds_every_run(found):
    data = json.loads(json.dumps(to_page(found)))
    assert [len(run["maps"]) for run in data["runs"]] == [0, 1]
    assert len(data["table"]) == 2
    assert data["columns"] == [name for name in COLUMNS if name != "alignment error"]  # nobody knows it here


def test_it_takes_two_runs_and_one_input(found, subject, task):
    with pytest.raises(RegardError, match=r"there are 1 runs to compare; give two or more"):
        table(found[:1])
    other = inspect(subject(), task.split("train")[1][0])
    with pytest.raises(RegardError, match=r"the runs were given different inputs; compare them on the same one"):
        table([found[0], other])
