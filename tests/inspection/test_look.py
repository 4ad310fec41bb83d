"""A run's page: in a notebook, as a file."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.core.errors import DataError, RegardError
from regard.decoding import beam, greedy
from regard.inspection import look as looking
from regard.inspection.look import decoder, look
from regard.inspection.tables import Tables


@dataclass
class Run:
    folder: Path
    recipe: Any
    task: Any
    model: Any


def recipe(module, config):
    from functools import partial

    return SimpleNamespace(
        task=SimpleNamespace(name="translation"),
        model=SimpleNamespace(name="transformer"),
        decoding=SimpleNamespace(config=config),
        decoder=lambda: partial(module.decode, config=config),
    )


@pytest.fixture
def run(tmp_path, subject, task, monkeypatch):
    monkeypatch.setattr("regard.inspection.collect.tables", lambda *_: Tables(None, ()))  # t-SNE takes its time
    return Run(tmp_path / "en-ko", recipe(greedy, greedy.Config()), task, subject().model)


def test_a_notebook_shows_the_page_inside_a_frame(run, sentence):
    shown = look(run, sentence)
    frame = shown._repr_html_()
    inside = re.search(r'srcdoc="([^"]*)"', frame).group(1)
    assert html.unescape(inside) == shown.page
    assert shown.found.facts["run"] == "en-ko"


def test_it_is_saved_whole_or_not_at_all(run, sentence, tmp_path):
    shown = look(run, sentence)
    shown.save(tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8") == shown.page
    with pytest.raises(DataError, match=r"page\.html: cannot be written: "):
        shown.save(tmp_path / "new" / "page.html" / "page.html")


def test_a_beam_is_asked_for_its_best_few():
    wide = decoder(recipe(beam, beam.Config(width=8)))
    assert wide.keywords["config"].nbest == looking.NBEST
    narrow = decoder(recipe(beam, beam.Config(width=2)))
    assert narrow.keywords["config"].nbest == 2


def test_a_recipe_without_decoder_has_no_output():
    without = SimpleNamespace(task=SimpleNamespace(name="tagging"), decoder=lambda: None)
    with pytest.raises(RegardError, match=r"task 'tagging' has no decoder in its recipe"):
        decoder(without)
