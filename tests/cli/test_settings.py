"""Settings among the arguments of a command: three ways to write them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from regard.cli.main import build_app
from regard.cli.predict_command import PredictCommand
from regard.cli.settings import SettingsCommand, settings_of, split_settings, to_options

DECLARED = {"--json": False, "--out": True}


@pytest.mark.parametrize(
    ("args", "rest", "settings"),
    [
        (["run", "a text"], ["run", "a text"], []),
        (["run", "n=3"], ["run"], ["n=3"]),
        (["run", "--n", "3"], ["run"], ["n=3"]),
        (["--n=3", "run"], ["run"], ["n=3"]),
        (["--decoding.length-penalty", "0.5", "run"], ["run"], ["decoding.length_penalty=0.5"]),
        (["run", "--json", "--out", "a=b.txt", "x"], ["run", "--json", "--out", "a=b.txt", "x"], []),
        (["run", "--out=x", "--condition", "G minor", "--condition=Bach"], ["run", "--out=x"],
         ["condition=G minor", "condition=Bach"]),
        (["run", "--fast", "text"], ["run", "text"], ["fast=true"]),
        (["run", "--", "x=1", "--n"], ["run", "--", "x=1", "--n"], []),
        (["run", "folder/a=b.png", "one = two"], ["run", "folder/a=b.png", "one = two"], []),
        (["run", "-h", "--help"], ["run", "-h", "--help"], []),
    ],
)  # fmt: skip
def test_settings_are_separated_from_inputs(args, rest, settings):
    assert split_settings(args, DECLARED, flags={"fast"}) == (rest, settings)


def test_a_missing_value_is_a_usage_error():
    app = typer.Typer()
    app.command(cls=SettingsCommand)(_print)
    result = CliRunner().invoke(app, ["a", "--n"])
    assert result.exit_code == 2 and "--n needs a value: --n VALUE, or n=VALUE" in result.output
    assert CliRunner().invoke(app, ["a", "--n", "2", "b", "c=1"]).output == "['a', 'b'] ['n=2', 'c=1']\n"


def _print(context: typer.Context, args: list[str]) -> None:
    print(args, settings_of(context))


@dataclass(frozen=True)
class Options:
    n: int = 1
    title: str = ""
    condition: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    prompt: Path | None = None
    prompt_seconds: float | None = None


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (["n=3", "prompt_seconds=2.5", "title=x"], {"n": 3, "prompt_seconds": 2.5, "title": "x"}),
        (["title=3", "prompt=7"], {"title": "3", "prompt": "7"}),
        (["condition=Bach"], {"condition": ["Bach"]}),
        (["condition=Bach", "condition=2", 'condition=["a", "b"]'], {"condition": ["Bach", "2", "a", "b"]}),
        (["sizes=1", "sizes=[2, 3]"], {"sizes": [1, 2, 3]}),
        (["decoding=beam", "decoding.beam_width=8"], {"decoding": {"name": "beam", "beam_width": 8}}),
        (["other=1", "deep.down=2"], {"other": 1, "deep": {"down": 2}}),
    ],
)
def test_options_have_the_declared_types(settings, options):
    assert to_options(settings, Options) == options


def test_flags_are_read_only_for_an_option_that_is_not_declared(monkeypatch):
    read = []
    monkeypatch.setattr(PredictCommand, "flags", lambda self, args: read.append(args) or {"sample"})
    command = get_command(build_app("translate")).commands["translate"]
    for args, count in ((["run", "text", "--engine", "native"], 0), (["run", "--sample", "text"], 1)):
        context = command.make_context("translate", list(args))
        assert len(read) == count
    assert settings_of(context) == ["sample=true"]
