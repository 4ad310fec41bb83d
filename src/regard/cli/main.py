"""The command `regard`: options and help of every verb. A verb's file is imported when it is called, torch with it.

To add a verb: write `cli/<verb>.py` with a function `run`, and a thin command here that calls it.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from regard.core.errors import RegardError
from regard.core.version import __version__

app = typer.Typer(
    help="Attention models of every kind from one formula: train them, use them, and look at what they look at.",
    no_args_is_help=True,
    add_completion=False,
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


@app.command()
def demo() -> None:
    """Show attention at work on built-in data: no download, no settings."""
    from regard.cli.demo import run

    run()


def main() -> None:
    """Run the command line. A RegardError becomes one line on stderr and exit code 1; a usage error is code 2."""
    try:
        app(prog_name="regard")
    except RegardError as error:
        print("regard:", " ".join(str(error).split()), file=sys.stderr)
        raise SystemExit(1) from None
