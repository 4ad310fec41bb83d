"""The summary page of all claims: generated from stored figures; missing measurements are listed."""

from __future__ import annotations

from pathlib import Path

from regard.core.registry import find
from regard.experiments._runner import FIGURES, run_experiment
from regard.experiments._summary_page import NOT_MEASURED, experiment_names, summary_page

ROOT = Path(__file__).parents[2]


def ignore_progress(done, count, current):
    pass


def test_claims_without_measurements_are_listed(tmp_path):
    page = summary_page(tmp_path, tmp_path)
    assert page.count(f"| {NOT_MEASURED} |") == len(experiment_names())
    assert "soft-hard" in page


def test_stored_experiments_are_shown_with_their_plot(tmp_path):
    name = "position-requirements"
    experiment = find("regard.experiments", "position_requirements")
    run_experiment(experiment, name, tmp_path / "out" / name, effort=1, on_progress=ignore_progress)
    page = summary_page(tmp_path / "out", tmp_path / "docs")
    assert page.count(f"| {NOT_MEASURED} |") == len(experiment_names()) - 1
    assert f"![{name}](../out/{name}/plot.png)" in page
    assert f"| [`{name}`](#{name}) | {experiment.CLAIM} | holds | – |" in page


def test_an_incomplete_experiment_has_no_verdict(tmp_path):
    (tmp_path / "position-requirements").mkdir()
    stored = '{"effort": 1, "figures": {"index": {"unique": 1}}, "seconds": {}, "machine": ""}'
    (tmp_path / "position-requirements" / FIGURES).write_text(stored)
    assert summary_page(tmp_path, tmp_path).count(f"| {NOT_MEASURED} |") == len(experiment_names())


def test_the_page_in_docs_is_generated_from_the_stored_figures():
    docs = ROOT / "docs"
    assert (docs / "claims.md").read_text(encoding="utf-8") == summary_page(docs / "claims", docs)


def test_the_korean_glossary_names_every_experiment():
    page = (ROOT / "docs" / "korean.md").read_text(encoding="utf-8")
    names = [line.split("`")[1] for line in page.split("| 주장 | 실험 |")[1].splitlines() if "`" in line]
    assert sorted(names) == sorted(experiment_names())
