"""`regard import`: a model of Hugging Face transformers becomes a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.settings import START

PANEL = START


def run(
    source: Annotated[
        str, typer.Argument(metavar="FOLDER|NAME", help="A folder of transformers, or a model's name on its hub.")
    ],
    out: Annotated[Path, typer.Option(help="The run folder to make.")],
) -> None:
    """Make a run of a Marian, Pegasus, BERT, GPT-2 or ViT model, after its logits were found to be the same here."""
    from regard.api.run import load
    from regard.convert.import_model import import_model

    made = load(import_model(source, out))
    kind = f"{made.recipe.model.name} for {made.recipe.task.name}"
    print(f"{out}: {kind}, {made.parameters:,} parameters, the same logits as in transformers")
    print(f"look inside: regard check {out}; use it: regard {made.verb} {out} …")
