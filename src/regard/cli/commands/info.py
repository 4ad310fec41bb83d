"""`regard info`: what a run is, without running it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.cli.arguments import INSIDE, Folder, Json, Trust
from regard.core.errors import printable

PANEL = INSIDE


def run(folder: Folder, *, as_json: Json = False, trust: Trust = False) -> None:
    """Show what a run is: model, size, data, scores."""
    from rich.console import Console
    from rich.table import Table

    facts = describe(folder, trust=trust)
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    table = Table("what", "value", title=str(folder), show_lines=False)
    for key, value in facts.items():
        for name, text in _rows(key, value):
            table.add_row(name, text)
    Console(markup=False).print(table)  # the run's own words are no markup


def describe(folder: Path, *, trust: bool = False) -> dict[str, Any]:
    """Facts of a run folder, as plain values."""
    from regard.api.run import load
    from regard.core.config import to_dict
    from regard.training import sealed
    from regard.training.folder import Folder, read_kept

    loaded = load(folder, trust=trust)
    recipe = loaded.recipe.to_dict()
    step, metrics = read_kept(Folder(folder))
    facts: dict[str, Any] = {
        "task": recipe["task"],
        "verb": loaded.verb,
        "model": recipe["model"],
        "parameters": loaded.parameters,
        "sizes": to_dict(loaded.task.sizes),
        "data": recipe["data"],
        "decoding": recipe.get("decoding", {}),
        "step": step,
        "valid": metrics,
    }
    for path in sorted(folder.glob("evaluation-*.json")):
        facts[path.stem] = sealed.read_json(path).get("scores", {})
    return facts


def _rows(key: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [(f"{key}.{name}", _text(inner)) for name, inner in value.items()]
    return [(key, _text(value))]


def _text(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    return printable(text)
