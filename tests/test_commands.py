"""Every `regard …` command on every page is accepted by the command line: verb, options and settings.

Commands are found in bash blocks, in indented blocks, after a `$` and between backticks. Placeholders are written in
capitals or as `…`: RUN, FOLDER, "…".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from contributing_package import importable
from typer.main import get_command

from regard.cli import help
from regard.cli.examples import EXAMPLES
from regard.cli.main import build_app
from regard.cli.settings import SettingsCommand, settings_of
from regard.core.describe import source_path
from regard.core.errors import RegardError
from regard.core.registry import registered_names
from regard.training import recipe as recipes
from regard.training.recipe_files import packaged_recipes

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "README.ko.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
TASKS = registered_names("regard.tasks")
ANY_TASK = {"predict", "look", "compare", "serve"}  # commands that accept the options of every task


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines(text: str) -> Iterator[str]:
    """Yield the lines that are written as commands, continued lines joined."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if language == "bash":
                yield line.strip()
            elif line.startswith("$ "):
                yield line[2:]
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"^    (regard .*)$", outside, flags=re.MULTILINE)
    yield from re.findall(r"`(regard [^`]+)`", outside)


def calls(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each `regard` command; placeholders count as inputs."""
    for line in lines(text):
        parts = re.split(r"&&|\|\s|;|<\s*\S+|>\s*\S+", line.removesuffix(" …"))
        for part in parts:
            words = shlex.split(re.sub(r"(\w)…", r"\1", part), comments=True)
            words = words[words.index("-m") + 1 :] if "torchrun" in words else words
            words = [word for word in words if not re.fullmatch(r"[A-Z_]+=\S+|--?\.\.\.", word)]
            words = ["RUN" if word.startswith("hf:") else word for word in words]  # a run on the Hub: no network
            if words and Path(words[0]).name == "regard" and len(words) > 1:
                yield words[1:]


@cache
def known_commands() -> dict[str, Any]:
    return get_command(build_app()).commands


def problem(words: list[str]) -> str | None:
    """Return the error of the command line for a call, or None."""
    name, rest = words[0], words[1:]
    if name.startswith("-"):
        return None if name in ("--help", "--version", "--install-completion") else f"no option {name}"
    command = known_commands().get(name)
    if hasattr(command, "commands"):
        command, rest = command.commands.get(rest[0] if rest else ""), rest[1:]
    if command is None:
        return f"no command {' '.join(words[:2])}"
    return None if "--help" in rest or not rest else argument_error(command, name, rest)


def argument_error(command: Any, name: str, rest: list[str]) -> str | None:
    """Return the error for the arguments of a command, or None."""
    try:
        context = command.make_context(name, list(rest))
        settings = settings_of(context) if isinstance(command, SettingsCommand) else []
        return setting_error(name, context.params, settings)
    except RegardError as error:
        return str(error)
    except Exception as error:  # a usage error; its class belongs to typer
        if not hasattr(error, "format_message"):
            raise
        return str(error.format_message())


def setting_error(name: str, params: dict[str, object], settings: list[str]) -> str | None:
    """Return the error for an unknown setting, or None. Training settings are read as a recipe."""
    if name in ("train", "demo", "baseline"):
        return training_error(params, settings)
    settings_of_command = known_settings(name)
    unknown = [setting for setting in settings if setting.partition("=")[0] not in settings_of_command]
    return f"no setting {', '.join(unknown)}" if unknown else None


def training_error(params: dict[str, object], settings: list[str]) -> str | None:
    value = params.get("words") or params.get("task") or []
    words = [value] if isinstance(value, str) else [str(word) for word in value]  # type: ignore[attr-defined]
    words = [f"recipes/{word}.toml" if word in packaged_recipes() else word for word in words]
    tasks = [word for word in words if not word.endswith(".toml")]
    recipe = next((ROOT / word for word in words if word.endswith(".toml")), None)
    if recipe is not None and not recipe.exists():  # recipes/NAME.toml is a placeholder
        is_listed = recipe.parent == ROOT / "recipes" and not recipe.stem.isupper()
        return f"no file {relative(recipe)}" if is_listed else None
    if params.get("resume") is not None or any(re.fullmatch(r"[A-Z]+|…", task) for task in tasks):
        return None
    if recipe is None and tasks and tasks[0] not in TASKS and (ROOT / "recipes" / f"{tasks[0]}.toml").exists():
        recipe, tasks = ROOT / "recipes" / f"{tasks[0]}.toml", tasks[1:]  # a recipe by its name
    task = tasks[0] if tasks else None
    if task is None and recipe is None:
        return None
    if task is None:
        task = re.findall(r'^task = "(\w+)"', recipe.read_text(encoding="utf-8"), flags=re.MULTILINE)[0]
    recipes.read(task, recipe, settings=[*tasks[1:], *settings])
    return None


@cache
def known_settings(name: str) -> set[str]:
    """Return the settings that a command accepts besides its options, for every task it can serve."""
    decoders = [help.of_decoding(decoder) for decoder in registered_names("regard.decoding.strategies")]
    accepted = {"decoding", *(row[0] for section in decoders for row in section.rows)}
    if name in ANY_TASK:
        return accepted | {row[0] for task in TASKS for row in help.options_section(task).rows}
    if name in ("evaluate", "check", "data", "info"):
        files = [source_path("regard.tasks", task) for task in TASKS]
        data = {f"data.{row[0]}" for path in files for row in help.of_class(path, "Config")}
        return accepted | data | {row[0] for path in files for row in help.of_class(path, "Evaluation")}
    return accepted | {row[0] for section in help.verb_sections(name) for row in section.rows}


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_command_is_accepted(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # no file that a command names exists here
    with importable(tmp_path):  # the package of CONTRIBUTING.md
        errors = {" ".join(words): problem(words) for words in calls(page.read_text(encoding="utf-8"))}
    assert {call: error for call, error in errors.items() if error} == {}


@pytest.mark.parametrize("line", [line for lines_ in EXAMPLES.values() for line in lines_])
def test_every_example_in_a_help_text_is_accepted(line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ((words,),) = [list(calls(f"```bash\n{line}\n```\n"))]
    assert problem(words) is None


def test_every_command_has_examples():
    names = [
        f"{name} {inner}" if inner else name
        for name, command in known_commands().items()
        for inner in (getattr(command, "commands", None) or [""])
    ]
    assert sorted(names) == sorted(EXAMPLES)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("regard trane translation", "no command trane"),
        ("regard translate RUN --bean 5", "no setting bean"),
        ("regard translate RUN decoding.wide=5", "no setting decoding.wide=5"),
        ("regard translate RUN seconds=5", "no setting seconds=5"),
        ("regard train translation model.layer=2", "no setting 'layer'"),
        ("regard train transaltion", "translation"),
        ("regard train recipes/nothing.toml", "no file recipes/nothing.toml"),
        ("regard data chekc FOLDER", "no command data chekc"),
        ("regard experiment heads --fast", "--fast"),
        ("regard look RUN", "INPUT"),
    ],
)
def test_an_outdated_command_is_reported(line, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for text in (f"```bash\n{line}  # as it was\n```\n", f"    {line}\n", f"so: `{line}`.", f"```\n$ {line}\n```\n"):
        ((words,),) = [list(calls(text))]
        assert message in (problem(words) or "")


def test_placeholders_and_redirections_are_accepted():
    text = '`regard translate RUN… "…" n=3 < a.txt > b.txt` and `torchrun --nproc-per-node 2 -m regard train …`'
    assert [problem(words) for words in calls(text)] == [None]
    assert [problem(words) for words in calls("`regard predict RUN INPUT… KEY=VALUE…`")] == [None]
