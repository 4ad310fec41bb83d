"""`regard demo`: train the built-in English -> Korean Transformer, score it, translate, draw what it looks at."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console

from regard.api.run import Run
from regard.cli.draw import draw
from regard.inspection.crossing import crossing
from regard.training import recipe as recipes
from regard.training import run as runs

SETTINGS = [  # recipes/demo.toml, which is not installed with the package; a test holds the two together
    "data.vocabulary=1500",
    "data.tokens=2048",
    "data.pairs=30000",
    "model=transformer",
    "model.layers=2",
    "model.dim=128",
    "model.hidden=256",
    "model.heads=4",
    "model.dropout=0.1",
    "training.steps=500",
    "training.optimizer.lr=0.003",
    "training.schedule.warmup=200",
    "training.evaluation.every=500",
    "decoding=greedy",
]
SENTENCES = [
    "The nurse is reading a new book in the library.",
    "Minsu did not drink coffee yesterday.",
    "Please buy two apples.",
]


def run(out: Path | None, settings: list[str] | None = None) -> None:
    """Train into `out` (or a new folder), then show the run at work and say what to do next."""
    console = Console(highlight=False)
    folder = out if out is not None else Path(tempfile.mkdtemp(prefix="regard-demo-")) / "run"
    console.print("Training a Transformer on English -> Korean sentences made by a grammar (about 90 seconds) …")
    recipe = recipes.read("translation", None, settings=[*SETTINGS, *(settings or [])])
    trained = Run(runs.train(recipe, folder))
    show(trained, console)


def show(trained: Run, console: Console) -> None:
    """Score, translations, a map, and the next commands."""
    scores = trained.evaluate("test")
    console.print(f"\nOn sentences it has never seen: BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}\n")
    for source, target in zip(SENTENCES, trained.translate(SENTENCES), strict=True):
        console.print(f"  {source}\n  [bold]{target}[/bold]\n")
    rows, columns, weights = crossing(trained.task, trained.model, SENTENCES[0], trained.translate(SENTENCES[:1])[0])
    console.print("What each Korean token (row) looks at in the English (column), in percent, all heads together:\n")
    console.print(draw(rows, columns, weights))
    name = trained.folder
    console.print(f"\nThe run is in {name}. Next:", markup=False)
    for command, what in (
        (f'regard translate {name} "The doctor drank cold water at home yesterday."', "translate a sentence of yours"),
        (f'regard look {name} "The doctor drank cold water at home yesterday."', "every attention map, in a browser"),
        (f"regard evaluate {name}", "all scores, and how they are computed"),
        ("regard train translation model=bahdanau data.path=FOLDER", "train on your own pairs, with another model"),
    ):
        console.print(f"  {command}\n      {what}", markup=False, soft_wrap=True)
