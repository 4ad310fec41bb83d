"""Help output: settings read from the source, with the defaults of the task, in plain language."""

from __future__ import annotations

import json

import pytest
from run_cli import call

from regard.cli import help
from regard.cli.main import build_app
from regard.core.describe import source_path
from regard.core.registry import registered_names

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


def test_sections_of_a_task():
    names = [row[0] for section in help.task_sections("translation") for row in section.rows]
    assert {
        "data.path",
        "model.dim",
        "model.preset=tiny",
        "training.optimizer.lr",
        "pretrained.run",
        "decoding.beam_width",
    } <= set(names)
    names = [row[0] for section in help.task_sections("translation", "luong") for row in section.rows]
    assert "model.input_feeding" in names and "model.heads" not in names


def test_defaults_of_a_task_override_those_of_its_model():
    changed = help.model_section("luong", changed={"name": "luong", "dim": 7})
    assert {row[0]: row[1] for row in changed.rows}["model.dim"] == "7"
    assert {row[0]: row[1] for row in help.model_section("luong").rows}["model.dim"] != "7"


def test_sections_of_a_run(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"task": "translation", "decoding": {"name": "greedy"}}))
    options, decoding = help.run_sections(["--workers", "2", str(tmp_path), "text"])
    assert "n" in [row[0] for row in options.rows]
    assert "decoding.no_repeat_ngram_size" in [row[0] for row in decoding.rows]
    (tmp_path / "config.json").write_text(json.dumps({"task": "translation"}))
    assert len(help.run_sections([str(tmp_path)])) == 1
    for damaged in ("{", "[]", '{"task": "nowhere.unknown"}', '{"task": "gone"}'):
        (tmp_path / "config.json").write_text(damaged)
        assert help.run_sections([str(tmp_path)]) == []
    assert help.run_sections(["nothing", "here"]) == []


def test_a_verb_that_sets_an_option_lists_neither_options_nor_decoding(tmp_path):
    (section,) = help.verb_sections("score")
    assert section == help.Section("score with a run of language has no options.")
    (tmp_path / "config.json").write_text(json.dumps({"task": "language", "decoding": {"name": "sample"}}))
    assert help.run_sections([str(tmp_path)], "score") == [section]
    assert [len(part.rows) > 0 for part in help.run_sections([str(tmp_path)], "generate")] == [True, True]


def test_sections_of_a_verb():
    (section,) = help.verb_sections("translate")
    assert section == help.options_section("translation")
    assert help.verb_sections("sing") == []


def test_a_task_without_options(tmp_path, monkeypatch):
    (tmp_path / "lab_of_tests").mkdir()
    (tmp_path / "lab_of_tests" / "plain.py").write_text('"""A task."""\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert source_path("regard.tasks", "lab_of_tests.plain").name == "plain.py"
    assert help.options_section("lab_of_tests.plain").title == "lab_of_tests.plain has no options."
    (title, recipe, data, training, _) = help.task_sections("lab_of_tests.plain")
    assert title.title == "lab_of_tests.plain: A task." and not data.rows and training.rows
    assert [row[0] for row in recipe.rows] == ["seed"]


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("int", "whole number"),
        ("float | None", "number"),
        ("bool", "true or false"),
        ("str | tuple[str, ...]", "text or list"),
        ("Literal['adam', 'adamw']", "adam, adamw"),
        ("Literal[1, 2]", "1, 2"),
        ("Path | None", "path"),
        ("Level", ""),
        ("", ""),
    ],
)
def test_types(annotation, text):
    assert help.describe_type(annotation) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [("None", "none"), ("'auto'", "auto"), ("''", '""'), ("True", "true"), ("()", "[]"), ("(0.9, 0.98)", "0.9,0.98")],
)
def test_defaults(source, text):
    assert help.describe_default(source) == text
    assert help.describe_default("computed.SOMEWHERE") == ""


def test_presets():
    assert help.preset("Config(layers=2, bias=True)") == "layers=2 bias=true"
    assert help.preset("Config()") == "the defaults"


@pytest.mark.parametrize(
    "args", [[], ["train"], ["translate"], *(["train", task] for task in registered_names("regard.tasks"))]
)
def test_no_help_text_has_python_syntax(args, capsys):
    with pytest.raises(SystemExit) as stop:
        build_app()([*args, "--help"], prog_name="regard")
    printed = capsys.readouterr().out
    assert stop.value.code == 0
    for text in ("<bool>", "<str>", "list[", "tuple[", "Literal", "None", "False", "True", "Config(", "''"):
        assert text not in printed


def test_choices_of_an_imported_alias_are_listed():
    rows = {row[0]: row for section in help.task_sections("translation") for row in section.rows}
    assert help.describe_type(rows["model.activation"][2]) == "relu, gelu, gelu_tanh, silu"
    assert help.describe_type(rows["data.tokenizer"][2]) == "bpe, unigram, word, char"


@pytest.mark.parametrize("task", registered_names("regard.tasks"))
def test_every_setting_has_a_type_and_the_seed_is_documented(task):
    rows = [row for section in help.task_sections(task) for row in section.rows if "=" not in row[0]]
    rows += help.options_section(task).rows
    assert [row[0] for row in rows if not help.describe_type(row[2])] == []
    assert "seed" in [row[0] for row in rows]


def test_evaluation_options_are_shown_without_a_run(capsys):
    names = [row[0] for section in help.evaluation_sections([]) for row in section.rows]
    assert {"source", "target", "hypotheses", "bleu"} <= set(names)


def test_examples_are_part_of_the_help(capsys):
    call("translate", "--help")
    assert "\nExamples\n  regard translate RUN" in capsys.readouterr().out
