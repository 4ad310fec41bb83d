"""The page of all claims: made of what is stored, and what is not there is said."""

from __future__ import annotations

from pathlib import Path

from regard.core.registry import find
from regard.experiments._runner import FIGURES, run_experiment
from regard.experiments._summary_page import NOT_MEASURED, experiment_names, summary_page

ROOT = Path(__file__).parents[2]


def quiet(done, count, current):
    pass


def test_what_is_not_measured_is_said(tmp_path):
    page = summary_page(tmp_path, tmp_path)
    assert page.count(f"| {NOT_MEASURED} |") == len(experiment_names())
    assert "soft-hard" in page


def test_what_is_stored_is_shown_with_its_plot_beside_the_page(tmp_path):
    kept = tmp_path / "kept" / "requirements"
    run_experiment(find("regard.experiments", "requirements"), "requirements", kept, effort=1, on_progress=quiet)
    page = summary_page(tmp_path / "kept", tmp_path / "docs")
    assert page.count(f"| {NOT_MEASURED} |") == len(experiment_names()) - 1
    assert "![requirements](../kept/requirements/plot.png)" in page
    assert "| [`requirements`](#requirements) |" in page


def test_a_part_of_an_experiment_is_no_verdict(tmp_path):
    (tmp_path / "requirements").mkdir()
    stored = '{"effort": 1, "figures": {"index": {"unique": 1}}, "seconds": {}, "machine": ""}'
    (tmp_path / "requirements" / FIGURES).write_text(stored)
    assert summary_page(tmp_path, tmp_path).count(f"| {NOT_MEASURED} |") == len(experiment_names())


def test_the_page_in_docs_is_made_from_the_figures_beside_it():
    docs = ROOT / "docs"
    assert (docs / "claims.md").read_text(encoding="utf-8") == summary_page(docs / "claims", docs)


def test_the_korean_glossary_names_the_experiment_of_every_claim():
    page = (ROOT / "docs" / "korean.md").read_text(encoding="utf-8")
    named = [line.split("`")[1] for line in page.split("| 노트의 주장 | 실험 |")[1].splitlines() if "`" in line]
    assert sorted(named) == sorted(experiment_names())
