"""File names of stored evaluations: stable, and different for different settings."""

from __future__ import annotations

from regard.training import stored_evaluations
from regard.training.stored_evaluations import file_name

BEAM = {"name": "beam", "beam_width": 5, "length_penalty": 1.0}


def test_a_file_name_depends_on_the_settings_and_not_on_their_order():
    name = file_name("test", BEAM)
    assert name == file_name("test", dict(reversed(BEAM.items()))) == "evaluation-test-beam-36b99654.json"
    others = [file_name("valid", BEAM), file_name("test", {**BEAM, "beam_width": 1})]
    others += [file_name("test", BEAM, ["model.dropout=0"]), file_name("test", {})]
    assert len({name, *others}) == 5
    assert file_name("test", BEAM, ["a=1", "b=2"]) == file_name("test", BEAM, ["b=2", "a=1"])
    assert file_name("test", {}).startswith("evaluation-test-none-")


def test_reports_are_stored_separately_and_read_back(tmp_path):
    for width in (1, 5):
        report = {"split": "test", "decoding": {**BEAM, "beam_width": width}, "settings": [], "scores": {"bleu": width}}
        assert stored_evaluations.store(tmp_path, report).parent == tmp_path
    reports = list(stored_evaluations.read_all(tmp_path, "translation"))
    assert sorted(report["scores"]["bleu"] for report in reports) == [1, 5]
    described = {stored_evaluations.describe_settings(report, BEAM) for report in reports}
    assert described == {"", "decoding.beam_width=1"}
