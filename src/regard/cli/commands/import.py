"""`regard import`: import a Hugging Face transformers model as a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.settings import START

PANEL = START


def run(
    source: Annotated[
        str, typer.Argument(metavar="FOLDER|NAME", help="A transformers folder, or the name of a model on the hub.")
    ],
    out: Annotated[Path, typer.Option(help="The run folder to create.")],
) -> None:
    """Import a Marian, Pegasus, BERT, RoBERTa, ALBERT, XLNet, GPT-2 or ViT model, after comparing the logits."""
    from regard.api.run import load
    from regard.convert.import_model import import_model

    run = load(import_model(source, out))
    description = f"{run.recipe.model.name} for {run.recipe.task.name}"
    print(f"{out}: {description}, {run.parameters:,} parameters, the same logits as in transformers")
    print(f"check it: regard check {out}; use it: regard {run.verb} {out} …")
