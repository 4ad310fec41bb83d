"""The command `regard`: every file of commands/ is a command under its own name, and predict_command.py has the verbs.

A file has a function `run`, whose arguments are those of the command (or a typer app `app` with commands of its own),
and may have `PANEL`, where `regard --help` lists it, and `Command`, the class that reads its words. No file imports
torch at its top, so that `regard --help` is quick.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Annotated

import typer

from regard.cli import predict_command
from regard.cli.help import PlainCommand, PlainGroup
from regard.cli.settings import PANELS, USE
from regard.core.errors import RegardError, printable
from regard.core.registry import find, registered_names
from regard.core.version import __version__

app = typer.Typer(
    help="Attention models of every kind from one formula: train them, use them, and look at what they look at.",
    cls=PlainGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a mistake of the user's is one line; a mistake of ours is a plain traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before the verb; `--version` has done its work when this is reached."""


def _add(name: str, module: ModuleType) -> None:
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name, rich_help_panel=module.PANEL)
    else:
        app.command(name, cls=getattr(module, "Command", PlainCommand), rich_help_panel=module.PANEL)(module.run)


_MODULES = {name: find("regard.cli.commands", name) for name in registered_names("regard.cli.commands")}
for _panel in PANELS:
    for _name in (name for name, module in _MODULES.items() if _panel == module.PANEL):
        _add(_name, _MODULES[_name])
    for _name, _run in predict_command.COMMANDS.items() if _panel == USE else ():
        app.command(_name, cls=predict_command.PredictCommand, rich_help_panel=USE)(_run)


def main() -> None:
    """Run the command line. A RegardError becomes one line on stderr and its exit code (1, or for what a signal has
    ended 128 and its number: 130 for Ctrl+C); a usage error is code 2."""
    # Read when torch is first imported, later. Threads that wait spin no longer than this: as fast as ever on a
    # quiet machine, and ten times faster and more where other processes want the cores too.
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")
    try:
        app(prog_name="regard")
    except RegardError as error:
        print("regard:", printable(" ".join(str(error).split())), file=sys.stderr)
        raise SystemExit(error.code) from None
