"""Simple baselines on the data of recipes, by `regard baseline`, for docs/results.md.

    python bench/baselines.py movie_reviews imdb_hierarchical nsmc

The figures of each recipe go to docs/baselines.json and docs/results.md as soon as they are measured. The cost of a
baseline is chosen on the validation data, so only the test split is listed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import results_page


def measure(recipe: str) -> dict[str, Any]:
    """Run `regard baseline` on the test split of a recipe -> the task and the scores."""
    command = [sys.executable, "-m", "regard", "baseline", recipe, "--json"]
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {"task": result["task"], "scores": result["scores"]}


def main(recipes: list[str]) -> None:
    """Measure the baselines of each recipe and store them."""
    for recipe in recipes:
        row = measure(recipe)
        print(recipe, row["scores"], flush=True)
        results_page.store(results_page.BASELINES, results_page.stored(results_page.BASELINES) | {recipe: row})


if __name__ == "__main__":
    main(sys.argv[1:])
