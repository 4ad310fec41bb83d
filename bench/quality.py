"""Do the fast paths cost quality? BLEU after equal steps with and without them, three seeds each.

    python bench/quality.py OUT --steps 3000        # hours; runs go to OUT/<paths>-<seed>, docs/quality.md is written
    python bench/quality.py OUT --steps 700 --set data.path=../shared/data/multi30k      # with the data at hand

The recipe's schedule is made to end at the last step, and the validation data is looked at there only. A run that is
trained already is taken as it is; one that was interrupted goes on.

With: everything as it is. Without: PyTorch's own dropout in place of cheap random bits, the fused attention kernel at
every length, linear layers by nn.Linear, the whole logits and PyTorch's own cross entropy in place of chunks, decoding
by the plain model. The trained runs are then translated once more with 8-bit weights, which are an option and are not
exact.
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
from regard.tasks.translation import metrics
from regard.training.train import resume

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "multi30k_en_de_transformer.toml"
SEEDS = (1, 2, 3)


def whole_cross_entropy(
    features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
) -> Tensor:
    """Return the loss with all logits at the same time, by PyTorch."""
    logits = functional.linear(features, weight, bias)
    return functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)


@contextmanager
def plain_paths() -> Iterator[None]:
    """Use the plain PyTorch functions instead of the kernels."""
    with ExitStack() as stack:
        for name, replacement in {
            "regard.layers.dropout.Dropout.forward": lambda self, x: functional.dropout(
                x, self.probability, self.training
            ),
            "regard.layers.dropout.Dropout.dropout_add": lambda self, x, y: x + self(y),
            "regard.attention.attend.use_short_kernel": lambda q, k: False,
            "regard.layers.linear.use_one_dnn": lambda x, weight: False,
            "regard.layers.readout.linear_cross_entropy": whole_cross_entropy,
            "regard.models.transformer.optimize_for_decoding": lambda model, precision: model,
        }.items():
            stack.enter_context(patch(name, replacement))
        yield


def shortened(steps: int) -> list[str]:
    """Return settings that end the recipe and its schedule after this many steps; warm-up is a fifth of them."""
    return [
        f"training.steps={steps}",
        f"training.schedule.warmup={max(1, min(600, steps // 5))}",
        f"training.evaluation.every={steps}",
        "training.evaluation.average_last=0",
        "training.files.save_every=500",
    ]


def train(out: Path, seed: int, settings: list[str]) -> Any:
    """Return the run of a seed: load it, resume it, or train it."""
    if (out / "config.json").exists():
        resume(out)
        return regard.load(out)
    return regard.train("translation", [f"seed={seed}", *settings], out=out, recipe=RECIPE)


def eight_bits(run: Any) -> float:
    """Return BLEU of the test data, translated with 8-bit weights."""
    pairs = run.task.split("test")
    translations = regard.load(run.folder, engine="int8").translate([source for source, _ in pairs])
    scores = metrics.compute_metrics(translations, [target for _, target in pairs], tokenize=run.task.bleu_tokenizer)
    return scores[run.task.target_metric]


def page(bleu: dict[str, list[float]], steps: int, settings: list[str]) -> str:
    """Write docs/quality.md."""
    changes = [f"`{setting}`" for setting in settings if not setting.startswith("data.path=")]
    changed = f" with {', '.join(changes)}" if changes else ""
    lines = [
        f"| {name} | {statistics.mean(scores):.2f} | {', '.join(f'{score:.2f}' for score in scores)} |"
        for name, scores in bleu.items()
    ]
    apart = statistics.mean(bleu["with"]) - statistics.mean(bleu["without"])
    seeds = max(max(scores) - min(scores) for scores in (bleu["with"], bleu["without"]))
    rounding = statistics.mean(bleu["with, int8"]) - statistics.mean(bleu["with"])
    return f"""# Quality of the fast paths

Written by `python bench/quality.py`: BLEU on the test data after {steps} steps of `recipes/{RECIPE.name}`{changed}.
The schedule is shortened to end there; the seeds are {", ".join(map(str, SEEDS))}. Without the fast paths, dropout,
attention, linear layers, loss and decoding are those of PyTorch. int8 is the run trained with the fast paths, decoded
with 8-bit weights.

| fast paths | mean BLEU | by seed |
|---|---|---|
{chr(10).join(lines)}

Difference between with and without: {apart:+.2f} BLEU. Seeds alone differ by up to {seeds:.2f}.
Effect of 8-bit weights: {rounding:+.2f}.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "quality.md")
    arguments = parser.parse_args()
    settings = [*shortened(arguments.steps), *arguments.settings]
    bleu: dict[str, list[float]] = {"with": [], "without": [], "with, int8": []}
    for seed in SEEDS:
        run = train(arguments.out / f"with-{seed}", seed, settings)
        bleu["with"].append(run.evaluate("test")[run.task.target_metric])
        bleu["with, int8"].append(eight_bits(run))
        with plain_paths():
            run = train(arguments.out / f"without-{seed}", seed, settings)
            bleu["without"].append(run.evaluate("test")[run.task.target_metric])
        print(seed, {name: round(scores[-1], 2) for name, scores in bleu.items()}, flush=True)
    arguments.page.write_text(page(bleu, arguments.steps, arguments.settings), encoding="utf-8")


if __name__ == "__main__":
    main()
