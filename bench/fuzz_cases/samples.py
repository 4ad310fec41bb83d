"""Small trained runs of a few tasks, shared by all kinds of cases."""

from __future__ import annotations

import os
import traceback
from functools import cache
from pathlib import Path
from typing import NamedTuple

from regard.core import config as configs
from regard.core.registry import find
from regard.data.builtin import english_korean
from regard.training import recipe as recipes
from regard.training import train as runs
from regard.training.console import SilentConsole

STEPS = 3
COMMON = [f"training.steps={STEPS}", "training.files.save_every=2", "training.evaluation.every=2"]
COMMON += ["training.evaluation.average_last=2", "training.schedule.warmup=2", "training.files.log_every=1"]
TASKS = {
    "translation": (
        "transformer",
        ["data.vocab_size=300", "data.max_batch_tokens=96", "data.max_length=64", "decoding=greedy"],
    ),
    "tagging": ("bilstm_crf", ["data.examples=40", "data.batch_size=8"]),
    "classification": ("hierarchical", ["data.examples=40", "data.batch_size=8"]),
    "language": ("gpt", ["data.vocab_size=300", "data.context=16", "data.batch_size=2", "data.eval_tokens=200"]),
    "masked_language": (
        "bert",
        ["data.vocab_size=300", "data.context=16", "data.batch_size=2", "data.eval_tokens=200"],
    ),
}
TEXTS = {"masked_language": "the [MASK] of a list", "language": "the list"}


class Sample(NamedTuple):
    """A trained run."""

    name: str
    path: Path
    text: str  # an input for it
    steps: int = STEPS


@cache
def samples(work: Path) -> list[Sample]:
    """Train the samples in a separate process, so that this one has never computed a gradient."""
    folder = work / "samples"
    folder.mkdir()
    data = folder / "data"
    data.mkdir()
    for split, count in (("train", 30), ("valid", 3), ("test", 3)):
        pairs = english_korean.generate(split, count, seed=1)
        for code, lines in (("en", [p.source for p in pairs]), ("ko", [p.target for p in pairs])):
            (data / f"{split}.{code}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    plain = folder / "plain.txt"
    plain.write_text(" ".join(pair.source for pair in english_korean.generate("train", 300, seed=2)), encoding="utf-8")
    paths = {"translation": f"data.path={data}", "language": f"data.paths=[{str(plain)!r}]"}
    paths["masked_language"] = paths["language"]
    pid = os.fork()
    if not pid:
        try:
            for task, (model, settings) in TASKS.items():
                _train(task, model, [*settings, *([paths[task]] if task in paths else [])], folder / task)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit("the samples could not be trained")
    return [Sample(task, folder / task, TEXTS.get(task, "The cook reads a book.")) for task in TASKS]


def _train(task: str, model: str, settings: list[str], out: Path) -> None:
    tiny = {"model": {"name": model, **configs.to_dict(find("regard.models", model).TINY)}}
    whole = recipes.read(task, settings=[f"model={model}", *settings, *COMMON]).to_dict()
    runs.train(recipes.from_dict(configs.merge(whole, tiny)), out, console=SilentConsole())
