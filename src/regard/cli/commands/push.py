"""`regard push`: upload a run to the Hugging Face Hub."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.settings import USE, Folder

PANEL = USE


def run(
    folder: Folder,
    name: Annotated[str, typer.Argument(metavar="hf:USER/NAME", help="The repository; it is created if necessary.")],
    *,
    private: Annotated[bool, typer.Option("--private", help="Create a private repository.")] = False,
    message: Annotated[str, typer.Option(help="The commit message.", show_default="Upload RUN")] = "",
) -> None:
    """Upload a run to the Hugging Face Hub: configuration, weights and model card, without code."""
    from regard.api.hub import push

    address = push(folder, name, private=private, message=message)
    print(f"{address}\nUse it with {name} in place of a run folder; in Python: regard.load({name!r})")
