"""The command `regard`: every file in commands/ is a command of that name; predict_command.py has the verbs.

A command file has a function `run` with the arguments of the command (or a typer app `app` with subcommands), `PANEL`,
the section of `regard --help`, and optionally `Command`, the class that parses its arguments. No command file imports
torch at module level, so that `regard --help` is fast.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Annotated

import typer

from regard.cli import predict_command
from regard.cli.examples import FIRST_STEPS
from regard.cli.help import PlainCommand, PlainGroup
from regard.cli.settings import PANELS, USE
from regard.cli.standard_output import ClosedPipe, guarded_output
from regard.core.errors import RegardError, printable
from regard.core.registry import find, registered_names
from regard.core.version import __version__

COMMANDS = "regard.cli.commands"
EXIT_CODES = """Exit codes: 0 success; 1 an error, in one line on standard error; 2 wrong usage; 3 some inputs could not
be predicted, all others were; 130 and 143 stopped by Ctrl+C or SIGTERM; 141 the reader of the output closed the pipe.
"""


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"regard {__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Print what to try if there is no command; `--version` is handled by its callback."""
    if context.invoked_subcommand is None:
        print(FIRST_STEPS, end="")


def build_app(command: str = "") -> typer.Typer:
    """Return the application with every command, or with one: the modules of the others are then not imported."""
    app = typer.Typer(
        help="Train, run, serve and inspect attention models of every kind, built from one formula.",
        epilog=EXIT_CODES,
        cls=PlainGroup,
        invoke_without_command=True,
        pretty_exceptions_enable=False,  # user errors are one line; bugs are a plain traceback
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    names, verbs = registered_names(COMMANDS), list(predict_command.COMMANDS)
    if command in (*names, *verbs):
        names, verbs = ([name for name in group if name == command] for group in (names, verbs))
    modules = {name: find(COMMANDS, name) for name in names}
    for panel in PANELS:
        for name in (name for name, module in modules.items() if panel == module.PANEL):
            _add(app, name, modules[name])
        for verb in verbs if panel == USE else ():
            run = predict_command.COMMANDS[verb]
            app.command(verb, cls=predict_command.PredictCommand, rich_help_panel=USE)(run)
    return app


def _add(app: typer.Typer, name: str, module: ModuleType) -> None:
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name, rich_help_panel=module.PANEL)
    else:
        app.command(name, cls=getattr(module, "Command", PlainCommand), rich_help_panel=module.PANEL)(module.run)


def main() -> None:
    """Run the command line. A RegardError becomes one line on standard error and its exit code (see EXIT_CODES)."""
    # OpenMP reads this when torch is imported. Waiting threads spin no longer than this: equally fast on a quiet
    # machine, and more than ten times faster if other processes use the cores.
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")
    try:
        with guarded_output():
            build_app(next(iter(sys.argv[1:]), ""))(prog_name="regard")
    except ClosedPipe as closed:
        raise SystemExit(closed.code) from None
    except RegardError as error:
        print("regard:", printable(" ".join(error.for_command_line().split())), file=sys.stderr)
        raise SystemExit(error.code) from None
