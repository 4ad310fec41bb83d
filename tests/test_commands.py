"""Every `regard …` on every page is one that the command line takes: its verb, its options and its settings.

Commands stand in blocks of bash, in indented blocks, behind a `$` and between backticks. What stands for something else
is written in capitals or as `…`: RUN, FOLDER, "…".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from regard.cli import help
from regard.cli.main import app
from regard.cli.settings import SettingsCommand, settings_of
from regard.core.describe import source_path
from regard.core.errors import RegardError
from regard.core.registry import registered_names
from regard.training import recipe as recipes

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "README.ko.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
TASKS = registered_names("regard.tasks")
ANY_TASK = {"answer", "look", "compare", "serve"}  # commands that ask whatever the run can be asked


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines(text: str) -> Iterator[str]:
    """What is written as a command, continued lines joined."""
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
    """The words behind each `regard`, placeholders as words that anything takes for an input."""
    for line in lines(text):
        parts = re.split(r"&&|\|\s|;|<\s*\S+|>\s*\S+", line.removesuffix(" …"))
        for part in parts:
            words = shlex.split(re.sub(r"(\w)…", r"\1", part), comments=True)
            words = words[words.index("-m") + 1 :] if "torchrun" in words else words
            words = [word for word in words if not re.fullmatch(r"[A-Z_]+=\S+|--?\.\.\.", word)]
            if words and Path(words[0]).name == "regard" and len(words) > 1:
                yield words[1:]


@cache
def known_commands() -> dict[str, Any]:
    return get_command(app).commands


def problem(words: list[str]) -> str | None:
    """What the command line does not know in a call, or None."""
    name, rest = words[0], words[1:]
    if name.startswith("-"):
        return None if name in ("--help", "--version", "--install-completion") else f"no option {name}"
    command = known_commands().get(name)
    if hasattr(command, "commands"):
        command, rest = command.commands.get(rest[0] if rest else ""), rest[1:]
    if command is None:
        return f"no command {' '.join(words[:2])}"
    return None if "--help" in rest or not rest else wrong_words(command, name, rest)


def wrong_words(command: Any, name: str, rest: list[str]) -> str | None:
    """What a command does not take of its words; one without any, as `regard evaluate` in a sentence, is a name."""
    try:
        context = command.make_context(name, list(rest))
        settings = settings_of(context) if isinstance(command, SettingsCommand) else []
        return wrong_setting(name, context.params, settings)
    except RegardError as error:
        return str(error)
    except Exception as error:  # a usage error, whose class is typer's affair
        if not hasattr(error, "format_message"):
            raise
        return str(error.format_message())


def wrong_setting(name: str, params: dict[str, object], settings: list[str]) -> str | None:
    """A setting that nothing has; those of a training are read as a training reads them."""
    if name in ("train", "demo"):
        return wrong_training(params, settings)
    known = settings_known(name)
    unknown = [setting for setting in settings if setting.partition("=")[0] not in known]
    return f"no setting {', '.join(unknown)}" if unknown else None


def wrong_training(params: dict[str, object], settings: list[str]) -> str | None:
    given = params.get("words") or params.get("task") or []
    words = [given] if isinstance(given, str) else [str(word) for word in given]  # type: ignore[attr-defined]
    tasks = [word for word in words if not word.endswith(".toml")]
    recipe = next((ROOT / word for word in words if word.endswith(".toml")), None)
    if recipe is not None and not recipe.exists():  # recipes/NAME.toml stands for any
        ours = recipe.parent == ROOT / "recipes" and not recipe.stem.isupper()
        return f"no file {relative(recipe)}" if ours else None
    if params.get("resume") is not None or any(re.fullmatch(r"[A-Z]+|…", task) for task in tasks):
        return None
    task = tasks[0] if tasks else None
    if task is None and recipe is None:
        return None
    if task is None:
        task = re.findall(r'^task = "(\w+)"', recipe.read_text(encoding="utf-8"), flags=re.MULTILINE)[0]
    recipes.read(task, recipe, settings=[*tasks[1:], *settings])
    return None


@cache
def settings_known(name: str) -> set[str]:
    """The settings that a command takes beside its own options, of every task that it may be asked for."""
    decoders = [help.of_decoding(decoder) for decoder in registered_names("regard.decoding.strategies")]
    known = {"decoding", *(row[0] for section in decoders for row in section.rows)}
    if name in ANY_TASK:
        return known | {row[0] for task in TASKS for row in help.options_section(task).rows}
    if name in ("evaluate", "check", "data", "info"):
        files = [source_path("regard.tasks", task) for task in TASKS]
        own = {f"data.{row[0]}" for path in files for row in help.of_class(path, "Config")}
        return known | own | {row[0] for path in files for row in help.of_class(path, "Evaluation")}
    return known | {row[0] for section in help.verb_sections(name) for row in section.rows}


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_the_command_line_takes_every_command(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # nothing that a command names is there
    wrong = {" ".join(words): problem(words) for words in calls(page.read_text(encoding="utf-8"))}
    assert {call: said for call, said in wrong.items() if said} == {}


@pytest.mark.parametrize(
    ("line", "said"),
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
def test_a_command_that_is_out_of_date_is_seen(line, said, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for text in (f"```bash\n{line}  # as it was\n```\n", f"    {line}\n", f"so: `{line}`.", f"```\n$ {line}\n```\n"):
        ((words,),) = [list(calls(text))]
        assert said in (problem(words) or "")


def test_placeholders_and_redirections_are_no_mistakes():
    text = '`regard translate RUN… "…" n=3 < a.txt > b.txt` and `torchrun --nproc-per-node 2 -m regard train …`'
    assert [problem(words) for words in calls(text)] == [None]
    assert [problem(words) for words in calls("`regard answer RUN INPUT… KEY=VALUE…`")] == [None]
