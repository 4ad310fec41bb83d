"""Do the fast paths cost quality? BLEU after equal steps with and without them, three seeds each.

    python bench/quality.py OUT --steps 3000        # hours; runs go to OUT/<paths>-<seed>, docs/quality.md is written

With: everything as it is. Without: PyTorch's own dropout in place of cheap random bits, the fused attention kernel at
every length, the whole logits and PyTorch's own cross entropy in place of chunks, decoding by the plain model. The
trained runs are then translated once more with 8-bit weights, which are an option and are not exact.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from torch import Tensor
from torch.nn import functional

import regard
from regard.tasks import _bleu

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "multi30k_en_de_transformer.toml"
SEEDS = (1, 2, 3)


def whole_cross_entropy(
    features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
) -> Tensor:
    """The loss with all logits at once, by PyTorch."""
    logits = functional.linear(features, weight, bias)
    return functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)


@contextmanager
def plain_paths() -> Iterator[None]:
    """Everything by PyTorch's own means."""
    with ExitStack() as held:
        for name, other in {
            "regard.layers.dropout.Dropout.forward": lambda self, x: functional.dropout(
                x, self.probability, self.training
            ),
            "regard.attention.attend.is_short": lambda q, k: False,
            "regard.tasks.translation.linear_cross_entropy": whole_cross_entropy,
            "regard.models.transformer.preparable": lambda model, precision: False,
        }.items():
            held.enter_context(patch(name, other))
        yield


def train(out: Path, seed: int, settings: list[str]) -> Any:
    """A run of that seed, trained or found."""
    if not (out / "model.safetensors").exists():
        return regard.train("translation", [f"seed={seed}", *settings], out=out, recipe=RECIPE)
    return regard.load(out)


def eight_bits(run: Any) -> float:
    """BLEU of the test data, translated with 8-bit weights."""
    pairs = run.task.split("test")
    found = regard.load(run.folder, engine="int8").translate([source for source, _ in pairs])
    scores = _bleu.scores(found, [target for _, target in pairs], language=run.task.config.target)
    return scores[run.task.better]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    settings = [f"training.steps={arguments.steps}", *arguments.settings]
    found: dict[str, list[float]] = {"with": [], "without": [], "with, int8": []}
    for seed in SEEDS:
        run = train(arguments.out / f"with-{seed}", seed, settings)
        found["with"].append(run.evaluate("test")[run.task.better])
        found["with, int8"].append(eight_bits(run))
        with plain_paths():
            run = train(arguments.out / f"without-{seed}", seed, settings)
            found["without"].append(run.evaluate("test")[run.task.better])
        print(seed, {name: round(scores[-1], 2) for name, scores in found.items()}, flush=True)
    lines = [
        f"| {name} | {statistics.mean(scores):.2f} | {', '.join(f'{score:.2f}' for score in scores)} |"
        for name, scores in found.items()
    ]
    (ROOT / "docs" / "quality.md").write_text(
        "# Quality of the fast paths\n\n"
        f"Written by `python bench/quality.py`: BLEU on the test data after {arguments.steps} steps of\n"
        f"`recipes/{RECIPE.name}`, seeds {SEEDS}.\n\n| fast paths | mean BLEU | by seed |\n|---|---|---|\n"
        + "\n".join(lines)
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
