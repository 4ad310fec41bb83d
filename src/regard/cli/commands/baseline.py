"""`regard baseline`: the metrics of simple baselines on the data of a task, without training a model."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.settings import TRAIN, Json, SettingsCommand, settings_of
from regard.core.errors import ConfigError
from regard.core.strict_json import to_strict_json

PANEL = TRAIN
Command = SettingsCommand


def run(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="The task, or the name of a recipe.")],
    split: Annotated[str, typer.Option(help="The split of the data on which they are evaluated.")] = "test",
    *,
    as_json: Json = False,
) -> None:
    """Evaluate simple baselines on the data of a task: regard baseline classification data.path=reviews.csv.

    Documents: NB-SVM and an SVM over character n-grams. Entities: a CRF with hand-made features. Language: modified
    Kneser-Ney n-grams. Translation: a translation memory, and word by word. Recommendation: see regard evaluate.
    """
    from rich.console import Console

    from regard.cli.tables import tables
    from regard.training import recipe as recipes

    recipe = recipes.read(task, settings=settings_of(context))
    built = recipe.task.module("tasks").build(recipe.task.config)
    scores = built.baselines(split)
    if not scores:
        raise ConfigError(f"{recipe.task.name}: there is no simple baseline for this data")
    if as_json:
        print(to_strict_json({"task": recipe.task.name, "split": split, "scores": scores}))
        return
    for table in tables(scores, {}, title=f"baselines of {task} on {split}"):
        Console(markup=False).print(table, soft_wrap=True)
