"""One measurement in a process of its own: `python -m systems.measure WORK SYSTEM SENTENCES SECONDS FOLDER` -> JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from systems import work

CORES = 2
CORPUS = 10_000


def train(shape: str, system: str, sentences: work.Sentences, seconds: float) -> float:
    """Target tokens a second."""
    import torch

    torch.manual_seed(1)
    tokens = work.SHAPES[shape].tokens if shape in work.SHAPES else 2048
    batches = sentences.batches(tokens)
    if system == "regard":
        from systems import ours

        return work.rate(ours.trainer(shape, batches), seconds=seconds)
    from systems import plain

    if system == "PyTorch loop":
        net = plain.model(shape)
        return work.rate(plain.trainer(net, net, batches), seconds=seconds)
    from systems import marian

    net = marian.model(shape)
    return work.rate(plain.trainer(marian.forward(net), net, batches), seconds=seconds)


def decode(shape: str, system: str, groups: list[work.Rows], **how) -> float:
    """Sentences a second; `how` has kind, width, seconds, folder, and batch, the size of the groups."""
    width, seconds = how["width"], how["seconds"]
    if system.startswith("CTranslate2"):
        return _ctranslate2(shape, system, groups, **how)
    if system.startswith("regard"):
        return _regard(shape, system, groups, **how)
    from systems import marian, plain

    turn = iter(range(1_000_000))
    if system == "PyTorch loop":
        net = plain.model(shape).eval()
        return work.rate(lambda: plain.greedy(net, groups[next(turn) % len(groups)]), seconds=seconds)
    net = marian.model(shape).eval()
    return work.rate(lambda: marian.decode(net, groups[next(turn) % len(groups)], width=width), seconds=seconds)


def _regard(shape: str, system: str, groups: list[work.Rows], **how) -> float:
    from systems import ours

    precision = "int8" if "int8" in system else "float32"
    run = ours.decoder(shape, width=how["width"], precision=precision)
    if how["batch"] == 1:
        ours.begin()
        turn = iter(range(1_000_000))
        return work.rate(lambda: run(groups[next(turn) % len(groups)]), seconds=how["seconds"])
    ours.begin()  # before the fork: no threads yet
    if how["kind"] == "decode":
        return ours.steady(run, groups, processes=CORES, seconds=how["seconds"])
    return work.rate(lambda: ours.everything(run, groups, processes=CORES), seconds=how["seconds"], least=1)


def _ctranslate2(shape: str, system: str, groups: list[work.Rows], **how) -> float:
    """Names say the setting: CTranslate2 float32 2x1 is two workers of one thread."""
    from systems import ct2

    kind, setting = system.split()[1:3]
    workers, threads = map(int, setting.split("x"))
    engine = ct2.translator(shape, how["folder"] / shape, kind=kind, workers=workers, threads=threads)
    rows = [ct2.named(group) for group in groups]
    if how["batch"] == 1:
        turn = iter(range(1_000_000))
        step = lambda: ct2.decode(engine, rows[next(turn) % len(rows)], width=how["width"], batch=1)  # noqa: E731  # a step is a function without a name
        return work.rate(step, seconds=how["seconds"])
    flat = [row for group in rows for row in group]
    return work.rate(
        lambda: ct2.decode(engine, flat, width=how["width"], batch=how["batch"]), seconds=how["seconds"], least=1
    )


def measure(task: str, system: str, sentences: work.Sentences, *, seconds: float, folder: Path) -> float:
    """The rate of one system at one work."""
    kind, shape, *rest = task.split("-")
    if kind == "train":
        return train(shape, system, sentences, seconds)
    width = 1 if rest[0] == "greedy" else 5
    batch = {"decode": 64, "single": 1, "corpus": 256 // width}[kind]
    rows = sentences.source[:CORPUS] if kind == "corpus" else sentences.test
    groups = work.groups(rows if kind != "single" else rows[::10], batch)
    return decode(shape, system, groups, width=width, seconds=seconds, folder=folder, batch=batch, kind=kind)


def main() -> None:
    task, system, sentences, seconds, folder = sys.argv[1:]
    begun = time.process_time()
    found = measure(task, system, work.load(Path(sentences)), seconds=float(seconds), folder=Path(folder))
    cpu = time.process_time() - begun
    result = {"rate": found, "megabytes": work.memory(), "seconds": work.since_start(), "cpu": cpu}
    print("RESULT " + json.dumps(result), flush=True)
    os._exit(0)  # some engines take long to leave


if __name__ == "__main__":
    main()
