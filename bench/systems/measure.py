"""One measurement in a separate process: `python -m systems.measure WORK SYSTEM SECONDS FOLDER` -> JSON.

FOLDER is the output of `systems.prepare`. A work is train-SHAPE, decode-SHAPE-SEARCH, single-SHAPE-SEARCH,
corpus-tiny-SEARCH, text-KIND-SEARCH, startup-tiny, cost-SIZE, clients-TASK, or a comparison of bench/comparisons.py.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import comparisons

from systems import workload

CORES = 2
CORPUS = 10_000
WIDTHS = {"greedy": 1, "beam": 5}
BATCH = {"decode": 64, "single": 1}
WARM = 1.5  # seconds of single sentences before the measurement: a warm engine
# Batches of a pass, of medium length: all by default, fewer for the slowest works.
PASS = {"decode-tiny-beam": 8, "decode-base-greedy": 4, "decode-base-beam": 2}


def measure(task: str, system: str, *, seconds: float, folder: Path) -> dict[str, Any]:
    """Measure one system on one work."""
    if task in comparisons.MODULES:
        return comparisons.measure(comparisons.find(task), system)
    kind, shape, *rest = task.split("-")
    if kind in ("startup", "text", "clients"):
        return _measure_program(kind, shape, system, rest, seconds=seconds, folder=folder)
    sentences = workload.load(folder / "sentences.json")
    if kind == "cost":
        from systems import cost

        return cost.points(shape, system, sentences, folder)
    if kind == "train":
        return {"rate": train(shape, system, sentences, seconds=seconds)}
    width = WIDTHS[rest[0]]
    if kind == "corpus":
        return corpus(system, sentences, width=width, folder=folder)
    groups = workload.groups(sentences.test if kind == "decode" else sentences.test[::10], BATCH[kind])
    groups = workload.middle(groups, PASS.get(task, len(groups))) if kind == "decode" else groups
    return {"rate": decode(shape, system, groups, width=width, seconds=seconds, folder=folder)}


def _measure_program(kind: str, shape: str, system: str, rest: list[str], **how: Any) -> dict[str, Any]:
    """Measure a complete program: its start, texts to texts, or a server."""
    if kind == "startup":
        from systems import startup

        return {"ready": startup.ready(system, how["folder"])}
    if kind == "clients":
        from systems import clients

        return {"rate": clients.rate(shape, system, **how)}
    from systems import texts

    return texts.measure(shape, system, width=WIDTHS[rest[0]], **how)


def train(shape: str, system: str, sentences: workload.Sentences, *, seconds: float) -> float:
    """Return target tokens per second."""
    import torch

    torch.manual_seed(1)
    tokens = workload.SHAPES[shape].tokens if shape in workload.SHAPES else 2048
    batches = sentences.batches(tokens)
    if system.startswith("regard"):
        from systems import regard_system

        precision = system.removeprefix("regard").strip() or "auto"
        return workload.rate(regard_system.trainer(shape, batches, precision), seconds=seconds, least=2)
    from systems import marian, pytorch_baseline

    name = system.removesuffix(comparisons.HALF)
    dtype = torch.float32 if name == system else torch.bfloat16
    net: Any = pytorch_baseline.model(shape) if name == "PyTorch loop" else marian.model(shape)
    forward = net if name == "PyTorch loop" else marian.forward(net)
    return workload.rate(pytorch_baseline.trainer(forward, net, batches, dtype), seconds=seconds, least=2)


def decode(shape: str, system: str, groups: list[workload.Rows], **how: Any) -> float:
    """Return sentences per second over full passes through the groups; `how` has width, seconds, folder."""
    if system.startswith("CTranslate2"):
        return _ctranslate2(shape, system, groups, **how)
    if system.startswith("regard"):
        return _regard(shape, system, groups, **how)
    from systems import marian, pytorch_baseline

    if system == "PyTorch loop":
        net = pytorch_baseline.model(shape).eval()
        return _passes(lambda rows: pytorch_baseline.greedy(net, rows), groups, seconds=how["seconds"])
    net = marian.model(shape).eval()
    return _passes(lambda rows: marian.decode(net, rows, width=how["width"]), groups, seconds=how["seconds"])


def _passes(decode_group: Any, groups: list[Any], *, seconds: float) -> float:
    """Time single sentences in turn after a warm-up, or batches in full passes: the same for all systems."""
    if len(groups[0]) == 1:
        turn = iter(range(10**9))
        step = lambda: decode_group(groups[next(turn) % len(groups)])  # noqa: E731  # an argument
        return workload.rate(step, seconds=seconds, warm=lambda: workload.rate(step, seconds=WARM))
    return workload.rate(
        lambda: sum(map(decode_group, groups)), seconds=seconds, least=1, warm=lambda: decode_group(groups[0])
    )


def _regard(shape: str, system: str, groups: list[workload.Rows], **how: Any) -> float:
    from systems import regard_system

    regard_system.begin()  # before the fork: no threads yet
    net = regard_system.model(shape).for_decoding("int8" if "int8" in system else "float32")
    run = regard_system.decoder(net, width=how["width"])
    if len(groups[0]) == 1:
        regard_system.use_threads(net)
        return _passes(run, groups, seconds=how["seconds"])
    return regard_system.steady(run, groups, processes=CORES, seconds=how["seconds"])


def _ctranslate2(shape: str, system: str, groups: list[workload.Rows], **how: Any) -> float:
    """Submit all sentences of a pass together: CTranslate2 sorts, batches and distributes them."""
    from systems import ct2, paths

    setting, size, width = ct2.Setting.read(system), len(groups[0]), how["width"]
    engine = ct2.translator(paths.exported(how["folder"], shape), setting)
    rows = [ct2.named(group) for group in groups]
    if size > 1:
        warm_up_rows = [row for group in rows[: setting.workers] for row in group]
        rows = [[row for group in rows for row in group]]
        warm = lambda: ct2.decode(engine, warm_up_rows, width=width, batch=size)  # noqa: E731  # an argument
        step = lambda: ct2.decode(engine, rows[0], width=width, batch=size)  # noqa: E731  # an argument
        return workload.rate(step, seconds=how["seconds"], least=1, warm=warm)
    return _passes(lambda sentence: ct2.decode(engine, sentence, width=width, batch=1), rows, seconds=how["seconds"])


def corpus(system: str, sentences: workload.Sentences, *, width: int, folder: Path) -> dict[str, Any]:
    """Return the rate of one complete job."""
    from systems import corpus as jobs

    lines = jobs.lines_of(sentences, CORPUS)
    if system.startswith("regard"):
        job = jobs.regard_job(folder, width=width, engine="int8" if "int8" in system else "native")
        return jobs.measure(job, lines)
    job, batches = jobs.ctranslate2_job(folder, system, width=width, sample=lines[-2000:])
    return {**jobs.measure(job, lines), "batches": batches}


def main() -> None:
    task, system, seconds, folder = sys.argv[1:]
    figures = measure(task, system, seconds=float(seconds), folder=Path(folder))
    result = {**figures, "megabytes": workload.memory(), "seconds": workload.since_start()}
    print("RESULT " + json.dumps(result), flush=True)
    os._exit(0)  # some engines are slow to exit


if __name__ == "__main__":
    main()
