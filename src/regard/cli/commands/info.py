"""`regard info`: model, data, training and metrics of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.settings import INSIDE, Folder, Json, Trust
from regard.core.errors import printable
from regard.core.strict_json import to_strict_json

PANEL = INSIDE


def run(
    folder: Folder,
    *,
    recipe: Annotated[bool, typer.Option("--recipe", help="Print a recipe (TOML) that trains the run again.")] = False,
    as_json: Json = False,
    trust: Trust = False,
) -> None:
    """Show the model, size, data, training and metrics of a run."""
    if recipe:
        print(recipe_text(folder), end="")
        return
    from rich.console import Console
    from rich.table import Column, Table

    facts = describe(folder, trust=trust)
    if as_json:
        print(to_strict_json(facts))
        return
    table = Table("name", Column("value", overflow="fold"), title=str(folder), show_lines=False)
    for key, value in facts.items():
        for name, text in rows(key, value) if key != "evaluations" else ():
            table.add_row(name, text)
    for evaluation in facts["evaluations"]:
        for name, text in evaluation_rows(evaluation, facts["step"]):
            table.add_row(name, text)
    Console(markup=False).print(table)  # text from the run is not markup


def recipe_text(folder: Path) -> str:
    """Return the complete recipe of a run as TOML. Only its configuration is read, so nothing is imported."""
    from regard.training import recipe_files
    from regard.training.run_folder import IDENTITY_KEYS, RunFolder, read_config

    table = read_config(RunFolder(folder))
    comment = recipe_files.recipe_comment(folder, table.get("run"))
    settings = {name: value for name, value in table.items() if name not in IDENTITY_KEYS}
    return recipe_files.to_toml(settings, comment=comment)


def describe(folder: Path, *, trust: bool = False) -> dict[str, Any]:
    """Return facts about a run folder as plain values."""
    from regard.api.run import load
    from regard.core.config import to_dict
    from regard.training import stored_evaluations
    from regard.training.run_folder import RunFolder, read_identity, read_saved_metrics

    loaded = load(folder, trust=trust)
    recipe = loaded.recipe.to_dict()
    step, metrics = read_saved_metrics(RunFolder(folder))
    identity = read_identity(RunFolder(folder))
    facts: dict[str, Any] = {
        "task": recipe["task"],
        "verb": loaded.verb,
        "run": identity.run_id,
        "seed": recipe["seed"],
        "model": recipe["model"],
        "parameters": loaded.parameters,
        "spec": to_dict(loaded.task.spec),
        "data": recipe["data"],
        "checksum": {name: text[:12] for name, text in (identity.fingerprint or {}).items()},
        "pretrained": recipe.get("pretrained", {}),
        "training": recipe["training"],
        "decoding": recipe.get("decoding", {}),
        "step": step,
        "valid": metrics,
    }
    facts["evaluations"] = [
        {name: report.get(name) for name in ("split", "decoding", "settings", "step", "scores", "file")}
        | {"changed": stored_evaluations.describe_settings(report, facts["decoding"])}
        for report in stored_evaluations.read_all(folder, recipe["task"])
    ]
    return facts


def evaluation_rows(evaluation: dict[str, Any], step: int) -> Iterator[tuple[str, str]]:
    """Yield the scores of a stored evaluation as rows, which name its split, its settings and an earlier step."""
    notes = [evaluation["changed"]] if evaluation["changed"] else []
    notes += [f"step {evaluation['step']:,}"] if evaluation["step"] not in (None, step) else []
    name = f"{evaluation['split']} ({', '.join(notes)})" if notes else str(evaluation["split"])
    yield from rows(name, evaluation["scores"])


def rows(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield a fact as rows of a table; nested settings have dotted names."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from rows(f"{key}.{name}", inner)
    else:
        yield key, printable(text(value))


def text(value: Any) -> str:
    """Format a value for the table."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value)) or "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
