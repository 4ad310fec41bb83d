"""Help without the words of Python."""

from __future__ import annotations

import pytest

from regard.cli import help
from regard.cli.main import app
from regard.core.registry import registered_names


@pytest.mark.parametrize(
    ("annotation", "words"),
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
def test_kinds(annotation, words):
    assert help.describe_type(annotation) == words


@pytest.mark.parametrize(
    ("source", "words"),
    [("None", "none"), ("'auto'", "auto"), ("''", '""'), ("True", "true"), ("()", "[]"), ("(0.9, 0.98)", "0.9,0.98")],
)
def test_defaults(source, words):
    assert help.describe_default(source) == words
    assert help.describe_default("computed.SOMEWHERE") == ""


def test_presets():
    assert help.preset("Config(layers=2, share=True)") == "layers=2 share=true"
    assert help.preset("Config()") == "the defaults"


@pytest.mark.parametrize(
    "words", [[], ["train"], ["translate"], *(["train", task] for task in registered_names("regard.tasks"))]
)
def test_no_help_text_has_a_word_of_python(words, capsys):
    with pytest.raises(SystemExit) as stop:
        app([*words, "--help"], prog_name="regard")
    said = capsys.readouterr().out
    assert stop.value.code == 0
    for word in ("<bool>", "<str>", "list[", "tuple[", "Literal", "None", "False", "True", "Config(", "''"):
        assert word not in said
