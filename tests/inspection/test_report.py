"""The page of a run, in a notebook or a file."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.core.errors import FileError
from regard.decoding.strategies import beam, greedy
from regard.decoding.strategy import DecodingStrategy
from regard.inspection.parameter_tables import ParameterTables
from regard.inspection.report import MAX_OUTPUTS, inspect_run, target_of, with_nbest_outputs


@dataclass
class Run:
    folder: Path
    recipe: Any
    task: Any
    model: Any


def recipe(decoding):
    return SimpleNamespace(
        task=SimpleNamespace(name="translation"), model=SimpleNamespace(name="transformer"), decoding=decoding
    )


@pytest.fixture
def run(tmp_path, subject, task, monkeypatch):
    monkeypatch.setattr(
        "regard.inspection.collect.collect_tables", lambda *_: ParameterTables(None, ())
    )  # t-SNE is slow
    return Run(
        tmp_path / "en-ko",
        recipe(DecodingStrategy("greedy", greedy.Config(no_repeat_ngram_size=1))),
        task,
        subject().model,
    )


def test_a_notebook_shows_the_page_inside_a_frame(run, sentence):
    shown = inspect_run(run, sentence)
    frame = shown._repr_html_()
    inside = re.search(r'srcdoc="([^"]*)"', frame).group(1)
    assert html.unescape(inside) == shown.page
    assert shown.inspection.facts["run"] == "en-ko"


def test_it_is_saved_whole_or_not_at_all(run, sentence, tmp_path):
    shown = inspect_run(run, sentence)
    shown.save(tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8") == shown.page
    with pytest.raises(FileError, match=r"page\.html: could not be written \("):
        shown.save(tmp_path / "new" / "page.html" / "page.html")


def test_a_beam_is_asked_for_its_best_few(run, sentence):
    assert with_nbest_outputs(DecodingStrategy("beam", beam.Config(beam_width=8))).config.nbest == MAX_OUTPUTS
    assert with_nbest_outputs(DecodingStrategy("beam", beam.Config(beam_width=2))).config.nbest == 2
    assert (
        len(inspect_run(run, sentence, decoding=DecodingStrategy("beam", beam.Config(beam_width=3))).inspection.outputs)
        == 3
    )


def test_without_decoding_nothing_invents_one(run, documents):
    assert with_nbest_outputs(None) is None
    without_decoding = Run(run.folder, recipe(None), documents.task, documents.model)
    assert target_of(without_decoding).decoding is None
    assert inspect_run(without_decoding, "good. bad end.").inspection.outputs
