"""Settings and shared options of the command line.

`key=value`, `--key value` and `--key=value` are equivalent in every command. The arguments and options that several
commands have are declared here once.
"""

from __future__ import annotations

import keyword
import re
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli import completion
from regard.cli.completion import ARGS_META_KEY
from regard.cli.help import PlainCommand, Section, print_sections
from regard.core import config as configs
from regard.core.pretrained_runs import locate_run

SETTING = re.compile(r"[A-Za-z_][\w.]*=")
OPTION = re.compile(r"--[A-Za-z_][\w.-]*")
_SETTINGS = "regard settings"  # key in the meta dictionary of a click context


class SettingsCommand(PlainCommand):
    """A command that accepts settings anywhere among its arguments; arguments after `--` are not settings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Extract the settings and parse the remaining arguments."""
        ctx.meta[ARGS_META_KEY] = list(args)
        options = [option for option in self.get_params(ctx) if option.param_type_name == "option"]
        declared = {name: not getattr(option, "is_flag", False) for option in options for name in option.opts}
        # The flags of a run are read from source files, which slows the start-up.
        may_have_flags = any(OPTION.fullmatch(word) and word not in declared for word in args)
        try:
            flags = self.flags(args) if may_have_flags else ()
            rest, ctx.meta[_SETTINGS] = split_settings(args, declared, flags=flags)
        except ValueError as error:
            ctx.fail(str(error))
        return super().parse_args(ctx, rest)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the command and the settings of the task or run among the arguments."""
        super().format_help(ctx, formatter)
        print_sections(self.sections(ctx.meta.get(ARGS_META_KEY, [])))

    def flags(self, args: Sequence[str]) -> Collection[str]:
        """Return the boolean settings, which may be given as `--key` without a value."""
        return ()

    def sections(self, args: Sequence[str]) -> Iterable[Section]:
        """Return the sections that the help shows after the options of the command."""
        return ()


def settings_of(context: typer.Context) -> list[str]:
    """Return the settings of a call as `key=value` strings, in order."""
    settings: list[str] = context.meta[_SETTINGS]
    return settings


def split_settings(
    args: Sequence[str], declared: Mapping[str, bool], *, flags: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Arguments -> (other arguments, settings as `key=value`).

    `declared` maps each option of the command to True if a value follows it.
    """
    rest: list[str] = []
    settings: list[str] = []
    words = iter(args)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            rest += [word, *words]
        elif name in declared:
            rest += [word, *islice(words, 1 if declared[name] and not equals else 0)]
        elif OPTION.fullmatch(name) and name != "--help":
            key = name[2:].replace("-", "_")
            settings.append(f"{key}={value if equals else _value(key, words, flags)}")
        elif SETTING.match(word):
            settings.append(word)
        else:
            rest.append(word)
    return rest, settings


def _value(key: str, words: Iterable[str], flags: Collection[str]) -> str:
    value = "true" if key in flags else next(iter(words), None)
    if value is None:
        raise ValueError(f"--{key} needs a value: --{key} VALUE, or {key}=VALUE")
    return value


def to_options(settings: Sequence[str], options_type: type) -> dict[str, Any]:
    """`key=value` strings -> options of a request. A field that is a tuple in `options_type` may be repeated."""
    hints = typing.get_type_hints(options_type)
    table: dict[str, Any] = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        key = f"{key}_" if keyword.iskeyword(key) else key  # a field cannot be named `class`
        hint = hints.get(key)
        if key == "decoding":  # selects a strategy; decoding.beam_width=… is a setting of it
            table = configs.merge(table, {"decoding": {"name": text}})
        elif hint is None:
            table = configs.override(table, [setting])
        elif typing.get_origin(hint) is tuple:
            value = _parsed(text, hint)
            table[key] = [*table.get(key, []), *(value if isinstance(value, list) else [value])]
        else:
            table[key] = _parsed(text, hint)
    return table


def _parsed(text: str, hint: Any) -> Any:
    """Parse a value as TOML. If the field is a text, "3" and "true" stay texts."""
    value = configs.override({}, [f"value={text}"])["value"]
    types = {hint, *typing.get_args(hint)}
    wants_text = types & {str, Path} and not types & {int, float, bool}
    return text if wants_text and not isinstance(value, str | list) else value


START, TRAIN, USE, INSIDE = PANELS = ("Start", "Train", "Use a run", "Inspect a run")

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="The run folder, pretrained:NAME, or hf:USER/NAME.",
        parser=locate_run,
        autocompletion=completion.runs,
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="INPUT|KEY=VALUE",
        help="Texts (or files, if the task reads files), and options.",
        show_default=False,
        autocompletion=completion.complete_predict,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
Engine = Annotated[str, typer.Option(help="auto (the fastest engine with equal results), native, int8 or ctranslate2.")]
Precision = Annotated[str, typer.Option(help="float32, or int8: faster for wide models, not exact.")]
Workers = Annotated[int, typer.Option(help="Processes for long inputs.", show_default="one for each core")]
OnError = Annotated[
    str | None,
    typer.Option(
        help="Action for an input that fails: stop, skip, or blank (print an empty line).",
        show_default="blank for standard input, else stop",
    ),
]
Ray = Annotated[
    str,
    typer.Option(
        metavar="[ADDRESS]",
        help="Predict on the Ray cluster at this address; without one, on a cluster of this machine (extra ray).",
        show_default=False,
    ),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Allow the run to import code from outside regard and to download its data.")
]
Out = Annotated[
    list[Path] | None,
    typer.Option(
        help="Write the predictions to a file; the suffix selects the format: .txt, .jsonl, or one of the task. "
        "May be repeated."
    ),
]
InputFile = Annotated[Path | None, typer.Option(help="Predict for every line of this text file.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
