"""Kill a training process again and again, resume it, and compare with a run that was never killed: byte for byte.

    python bench/reliability.py --kills 60 --page docs/reliability.md

A small Transformer is trained on real translation batches. Each process of it is killed by SIGKILL: at a random time,
while a file is being written, between the evaluation at an epoch's edge and its checkpoint, or a step or two after it
was resumed (twice in one epoch). Processes are forked from this one, which has imported torch but computed nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from regard.data.builtin import english_korean
from regard.training import recipe as recipes
from regard.training import run as runs
from regard.training.console import Silent
from regard.training.folder import Folder
from regard.training.recipe import Recipe

SETTINGS = [
    "model=transformer", "model.layers=1", "model.dim=16", "model.hidden=32", "model.heads=2", "model.dropout=0.2",
    "data.vocabulary=300", "data.tokens=96", "data.longest=64", "training.epochs=5", "training.files.save_every=3",
    "training.files.log_every=2", "training.evaluation.average=2", "training.schedule.warmup=10",
]  # fmt: skip
MARKS = ("<!-- measured -->", "<!-- end -->")


def make_data(folder: Path) -> None:
    """A few built-in sentences as files, so that a run takes about a second."""
    for split, count in (("train", 80), ("valid", 4), ("test", 4)):
        pairs = english_korean.generate(split, count, seed=1)
        for code, lines in (("en", [p.source for p in pairs]), ("ko", [p.target for p in pairs])):
            (folder / f"{split}.{code}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def start(recipe: Recipe, path: Path) -> int:
    """Train or resume in a process of its own; its number."""
    number = os.fork()
    if number:
        return number
    try:
        torch.set_num_threads(1)
        if (path / "config.json").exists():
            runs.resume(path, console=Silent())
        else:
            runs.train(recipe, path, console=Silent())
        os._exit(0)
    except BaseException:
        path.mkdir(parents=True, exist_ok=True)
        (path / "failure.txt").write_text(traceback.format_exc(), encoding="utf-8")
        os._exit(1)


def ended(number: int) -> bool:
    """Whether the process is over; an error in it is ours to report."""
    found, status = os.waitpid(number, os.WNOHANG)
    if found and status:
        raise SystemExit(f"a training process failed with status {status}; see failure.txt in its folder")
    return bool(found)


def anywhere(path: Path, until: float) -> Callable[[], bool]:
    """At a random time of a run."""
    moment = time.monotonic() + random.uniform(0, until)
    return lambda: time.monotonic() >= moment


def writing(path: Path, until: float) -> Callable[[], bool]:
    """As soon as a file is being written, after a random number of others."""
    later = time.monotonic() + random.uniform(0, 0.7 * until)
    return lambda: time.monotonic() > later and any((*path.glob(".*.part"), *path.glob("state/.*.part")))


def edge(path: Path, until: float) -> Callable[[], bool]:
    """After the evaluation at the end of an epoch, before its checkpoint."""
    before = set(path.glob("state/weights-*"))
    return lambda: bool(set(path.glob("state/weights-*")) - before)


def soon(path: Path, until: float) -> Callable[[], bool]:
    """A row or two of the log after the start."""
    timing = path / "timing.jsonl"
    size = timing.stat().st_size if timing.exists() else 0
    more = random.choice((1, 40))
    return lambda: timing.exists() and timing.stat().st_size >= size + more


MOMENTS = {"anywhere": anywhere, "while writing a file": writing, "at the edge of an epoch": edge, "soon after": soon}


@dataclass
class Tally:
    """What was done and found."""

    kills: Counter[str] = field(default_factory=Counter)
    parts: int = 0  # kills that left a half-written file behind
    twice: int = 0  # kills in the same epoch as the kill before
    runs: int = 0
    same: int = 0


def strike(number: int, path: Path, due: Callable[[], bool]) -> bool:
    """Kill the process when the moment has come; false if it ended before."""
    while not due():
        if ended(number):
            return False
        time.sleep(0.0002)
    if ended(number):
        return False
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)
    return True


def epoch(path: Path) -> int:
    """How many epochs were evaluated so far."""
    log = path / "log.jsonl"
    return log.read_text(encoding="utf-8").count('"valid"') if log.exists() else 0


def tormented(recipe: Recipe, path: Path, *, kills: int, duration: float, tally: Tally) -> None:
    """One run, killed so many times (or fewer, if it ends first), then left to finish."""
    last = -1
    for _ in range(kills):
        name = random.choice(list(MOMENTS))
        due = MOMENTS[name](path, duration)
        if not strike(start(recipe, path), path, due):
            return
        tally.kills[name] += 1
        tally.parts += any((*path.glob(".*.part"), *path.glob("state/.*.part")))
        tally.twice += epoch(path) == last
        last = epoch(path)
    finish(start(recipe, path))


def finish(number: int) -> None:
    """Wait for a process that nobody kills."""
    while not ended(number):
        time.sleep(0.001)


def outcome(path: Path) -> tuple[bytes, bytes]:
    """What must be the same: the weights and the log."""
    return Folder(path).model.read_bytes(), Folder(path).log.read_bytes()


def survive(kills: int, work: Path) -> Tally:
    """Kill until there were enough kills; every run must end as the one that was left alone did."""
    (work / "data").mkdir()
    make_data(work / "data")
    recipe = recipes.read("translation", settings=[*SETTINGS, f"data.path={work / 'data'}"])
    began = time.monotonic()
    finish(start(recipe, work / "whole"))
    duration, expected = time.monotonic() - began, outcome(work / "whole")
    tally = Tally()
    while sum(tally.kills.values()) < kills:
        path = work / f"run-{tally.runs}"
        left = kills - sum(tally.kills.values())
        tormented(recipe, path, kills=min(left, 8), duration=duration, tally=tally)
        tally.runs += 1
        tally.same += outcome(path) == expected
    return tally


def describe(tally: Tally, seconds: float) -> str:
    """The result in words."""
    rows = "\n".join(f"| {name} | {tally.kills[name]} |" for name in MOMENTS)
    return f"""{sum(tally.kills.values())} kills in {tally.runs} runs, {seconds:.0f} seconds:

| moment of the kill | kills |
|---|---|
{rows}

{tally.parts} kills left a half-written file behind, {tally.twice} fell into the same epoch as the kill before.
Runs that ended with the same bytes, weights and log, as the one never killed: **{tally.same} of {tally.runs}**.
"""


def put(page: Path, text: str) -> None:
    """The text between the marks of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    page.write_text(f"{before}{MARKS[0]}\n\n{text}\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, help="write the result between the marks of this page")
    asked = parser.parse_args()
    random.seed(asked.seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        tally = survive(asked.kills, Path(work))
    text = describe(tally, time.monotonic() - began)
    print(text)
    if asked.page:
        put(asked.page, text)
    if tally.same < tally.runs:
        raise SystemExit("a killed run ended otherwise than the one left alone")


if __name__ == "__main__":
    main()
