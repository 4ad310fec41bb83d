"""`regard info`: what a run is, without running it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from regard.api.run import load
from regard.training import files
from regard.training.folder import Folder


def run(folder: Path, *, as_json: bool) -> None:
    """Print the recipe, the size, the scores and the files of a run."""
    facts = describe(folder)
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    table = Table("what", "value", title=str(folder), show_lines=False)
    for key, value in facts.items():
        for name, text in _rows(key, value):
            table.add_row(name, text)
    Console().print(table)


def describe(folder: Path) -> dict[str, Any]:
    """Facts of a run folder, as plain values."""
    found = load(folder)
    recipe = found.recipe.to_dict()
    _, notes = files.read_tensors(Folder(folder).model)
    facts: dict[str, Any] = {
        "task": recipe["task"],
        "model": recipe["model"],
        "parameters": sum(weight.numel() for weight in found.model.parameters()),
        "vocabulary": {"source": found.task.sizes.source, "target": found.task.sizes.target},
        "data": recipe["data"],
        "decoding": recipe.get("decoding", {}),
        "step": notes.get("step"),
        "valid": notes.get("metrics", {}),
    }
    for path in sorted(folder.glob("evaluation-*.json")):
        facts[path.stem] = files.read_json(path)["scores"]
    return facts


def _rows(key: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [(f"{key}.{name}", _text(inner)) for name, inner in value.items()]
    return [(key, _text(value))]


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
