"""Program for torchrun: several small runs, one after the other, in the same processes."""

from __future__ import annotations

import sys
from pathlib import Path

from regard.training import recipe as recipes
from regard.training.console import SilentConsole
from regard.training.distributed import distributed_context
from regard.training.train import resume, train

BASE = [
    "training.steps=9", "training.files.log_every=1", "training.optimizer.lr=0.01", "training.schedule.warmup=4",
    "training.evaluation.every=4", "training.evaluation.average_last=2", "model.dropout=0.0", "data.examples=41",
    "data.batch=10", "training.optimizer.eps=0.0001",
]  # fmt: skip
KINDS = {
    "plain": [],
    "parts": ["training.optimizer.accumulation_steps=3"],
    "sharded": ["training.hardware.shard=full"],
    "spare": ["model.spare=true"],
    "short": ["training.steps=5"],
    "frozen": ["pretrained.params=blocks.*", "pretrained.freeze=true"],
    "frozen-sharded": ["pretrained.params=blocks.*", "pretrained.freeze=true", "training.hardware.shard=full"],
}


def recipe(kind: str, out: Path) -> recipes.Recipe:
    start = [f"pretrained.run={out / 'half'}"] if kind.startswith("frozen") else []
    return recipes.read("toys.summing", settings=[*BASE, *KINDS[kind], *start])


def main(out: Path, kinds: list[str]) -> None:
    with distributed_context("cpu"):  # one process group for all runs
        for kind in kinds:
            if kind == "resume":
                resume(out / "half", ["training.steps=9"], console=SilentConsole())
            else:
                train(recipe(kind, out), out / kind, console=SilentConsole())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
