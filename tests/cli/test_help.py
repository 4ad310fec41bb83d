"""Settings as they are listed: from the source, nested ones too, with a task's own defaults."""

from __future__ import annotations

import json

from regard.cli import help
from regard.core.describe import source_path

CODE = '''"""A thing."""


class Inner:
    rate: float = 0.5  # how fast


class Config:
    """Choices."""

    size: int = 3  # how large
    inner: Inner = field(default_factory=Inner)
'''


def test_rows_of_nested_settings(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(CODE, encoding="utf-8")
    rows = [("a.size", "3", "int", "how large"), ("a.inner.rate", "0.5", "float", "how fast")]
    assert list(help.of_class(path, "Config", prefix="a.")) == rows
    changed = list(help.of_class(path, "Config", changed={"inner": {"rate": 0.1}, "size": 9}))
    assert [row[1] for row in changed] == ["9", "0.1"]
    assert help.of_file(path, "x").title == "x: A thing. Choices."


def test_columns_are_aligned(capsys):
    help.print_sections([help.Section("Title", [("a", "1", "int", "first"), ("long", "22", "int", "second")])])
    assert capsys.readouterr().out == "\nTitle\n  a     1   whole number  first\n  long  22  whole number  second\n"


def test_a_training_has_data_model_training_and_decoding():
    names = [row[0] for section in help.task_sections("translation") for row in section.rows]
    assert {
        "data.path",
        "model.dim",
        "model.preset=tiny",
        "training.optimizer.lr",
        "pretrained.run",
        "decoding.beam_width",
    } <= set(names)
    other = [row[0] for section in help.task_sections("translation", "luong") for row in section.rows]
    assert "model.feed" in other and "model.heads" not in other


def test_defaults_of_a_task_are_laid_over_those_of_its_model():
    changed = help.model_section("luong", changed={"name": "luong", "dim": 7})
    assert {row[0]: row[1] for row in changed.rows}["model.dim"] == "7"
    assert {row[0]: row[1] for row in help.model_section("luong").rows}["model.dim"] != "7"


def test_a_run_says_what_can_be_asked_of_it(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"task": "translation", "decoding": {"name": "greedy"}}))
    options, search = help.run_sections(["--workers", "2", str(tmp_path), "text"])
    assert "n" in [row[0] for row in options.rows] and "decoding.no_repeat_ngram_size" in [row[0] for row in search.rows]
    (tmp_path / "config.json").write_text(json.dumps({"task": "translation"}))
    assert len(help.run_sections([str(tmp_path)])) == 1
    for damaged in ("{", "[]", '{"task": "nowhere.known"}', '{"task": "gone"}'):
        (tmp_path / "config.json").write_text(damaged)
        assert help.run_sections([str(tmp_path)]) == []
    assert help.run_sections(["nothing", "here"]) == []


def test_a_verb_has_the_options_of_its_tasks():
    (section,) = help.verb_sections("translate")
    assert section == help.options_section("translation")
    assert help.verb_sections("sing") == []


def test_a_task_without_options_says_so(tmp_path, monkeypatch):
    (tmp_path / "lab_of_tests").mkdir()
    (tmp_path / "lab_of_tests" / "plain.py").write_text('"""A task."""\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert source_path("regard.tasks", "lab_of_tests.plain").name == "plain.py"
    assert help.options_section("lab_of_tests.plain").title == "lab_of_tests.plain has no options."
    (title, data, training, _) = help.task_sections("lab_of_tests.plain")
    assert title.title == "lab_of_tests.plain: A task." and not data.batch_size and training.rows
