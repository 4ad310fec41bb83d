"""CONTRIBUTING.md: its files and commands work as they stand on the page, without any other code."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch
from contributing_package import FILES, commands, importable

import regard
from regard.cli.main import main

COMPONENTS = {"distance", "decay", "masks", "pooling", "nth", "majority", "letters"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the package, and the output of each command, run in the order of the page."""
    folder = tmp_path_factory.mktemp("contributing")
    before = os.getcwd()
    os.chdir(folder)
    try:
        with importable(folder):
            yield folder
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def printed(folder):
    """Command line -> the text it printed."""
    outputs = {}
    for line in [line for lines in commands().values() for line in lines]:
        arguments, sys.argv = sys.argv, shlex.split(line)
        with redirect_stdout(io.StringIO()) as stream, pytest.raises(SystemExit) as end:
            main()
        sys.argv = arguments
        assert not end.value.code, line
        outputs[line] = stream.getvalue()
    return outputs


def test_the_page_shows_one_complete_file_for_each_kind_of_component():
    assert {Path(name).stem for name in FILES} == COMPONENTS
    sections = ("a score", "a position scheme", "a decoding strategy", "a task", "a view")
    assert {f"Add {section}" for section in sections} <= set(commands())


def test_the_commands_of_the_page_work(printed):
    (classified,) = [text for line, text in printed.items() if line.startswith("regard classify")]
    assert [line.split("\t")[1] for line in classified.splitlines() if "%" in line][::2] == ["a", "b"]
    (checked,) = [text for line, text in printed.items() if line.startswith("regard check")]
    assert "passed" in checked and "FAILED" not in checked


def test_the_view_is_part_of_the_page_of_a_run(printed, folder):
    text = (folder / "letters.html").read_text(encoding="utf-8")
    assert "occurs" in text
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert [item["text"] for item in data["axes"]["letters"]["items"]] == list("abbab")


def test_the_score_equals_its_definition(folder):
    query, key, value = torch.randn(2, 3), torch.randn(4, 3), torch.randn(4, 5)
    weights = (-torch.cdist(query, key).square() * 3**-0.5).softmax(dim=-1)
    torch.testing.assert_close(regard.attend(query, key, value, score="my_lab.distance"), weights @ value)
    torch.testing.assert_close(regard.attention_map(query, key, score="my_lab.distance"), weights)


@pytest.mark.parametrize("name", ["distance", "decay"])
def test_runs_with_these_parts_pass_the_checks(printed, folder, name):
    assert [result.invariant for result in regard.load(folder / "runs" / name).check() if not result.passed] == []


def test_the_mask_hides_keys_between_the_strides(folder):
    from my_lab.masks import strided  # type: ignore[import-not-found]

    allowed = regard.attention_map(torch.zeros(3, 2), torch.zeros(4, 2), mask=strided(3, 4, stride=2)) > 0
    expected = [[False, True, False, False], [True, False, True, False], [False, True, False, True]]
    assert allowed.tolist() == expected
