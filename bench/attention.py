"""Time and peak memory of the attention kernels, beside PyTorch's plain formula and SDPA in the same run.

python bench/attention.py                  the whole table: prints it, writes docs/attention.md and docs/attention.json
python bench/attention.py --longest 1024   a quick look, printed only
python bench/attention.py --compare        the comparison with SDPA anew, beside the table as it was; three minutes

Every kernel runs in a process of its own, so that its memory is its own. Takes about eight minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "attention.json"
LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
KERNELS = {  # and the longest input that is worth waiting for, or fits into memory
    "full: formula": 4096,
    "full: SDPA": 8192,
    "full: regard": 8192,
    "causal: formula": 4096,
    "causal: SDPA": 8192,
    "causal: regard": 8192,
    "additive: formula": 1024,
    "additive: regard": 8192,
    "relative: naive gather": 4096,
    "relative: regard": 8192,
    "local 1-D: regard": 8192,
    "local 2-D: regard": 8192,
}
COMPARED = (256, 1024, 4096)  # lengths at which ours and SDPA take turns in one process
PASSES = {"forward": "forward", "both": "forward + backward"}
Cells = dict[str, dict[str, dict[str, dict[str, float]]]]  # kernel -> length -> pass -> ms, mb, heads

TEXT = """# Attention: time and memory

8 heads of 64, batch 1, float32. Written by `python bench/attention.py`; nothing here is copied by hand.

Machine: {machine}.

- **formula** is the textbook's formula in plain PyTorch; **SDPA** is `scaled_dot_product_attention` called directly;
  **regard** is `Attend`, which chooses its kernel by score and mask.
- full and causal use the scaled dot score; additive is `w·tanh(Wq + Uk)`; relative is causal with a table that covers
  the whole length; local 1-D is causal with a window of 256; local 2-D is causal in raster order, in blocks of 8 x 16
  with 8 rows above and 8 columns at each side.
- A cell is milliseconds (median) and, in brackets, by how many MB the process's memory rose, each kernel in a
  process of its own; inputs are not counted, gradients are.
- The naive gather (a vector for every pair, `t x s x d` for each head) is measured on **one head** and multiplied by
  eight, in time and in memory: eight heads at once would need 34 GB at 4096. The check below also gives the
  memory of all our heads beside that of its one head.
- A dash: does not fit into memory, or is not worth waiting for.

{tables}
## What was to be reached

{checks}
"""


def run(what: str, name: str, length: int) -> dict:
    """One measurement in a process of its own; empty where it failed (out of memory)."""
    command = [sys.executable, str(ROOT / "bench" / "attention_kernels.py"), what, name, str(length)]
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}, check=False)
    if done.returncode:
        print(f"{name} at {length} failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return {}
    return json.loads(done.stdout)


def machine() -> str:
    """The processor, its cores, its memory, and the versions that matter."""
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next((line.split(":")[1].strip() for line in cpus if "model name" in line), "?")
    memory = int(Path("/proc/meminfo").read_text(encoding="utf-8").split()[1]) / 2**20  # MemTotal is the first line
    threads = os.environ.get("BENCH_THREADS", os.cpu_count())
    load = os.getloadavg()[0]
    return (
        f"{cpu}, {os.cpu_count()} cores ({threads} threads used), {memory:.0f} GB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, PyTorch {torch.__version__}, {date.today()}, load before it {load:.1f}"
    )


def cell(cells: Cells, name: str, length: int, part: str) -> tuple[float, float] | None:
    """Milliseconds and MB of eight heads, or None."""
    found = cells.get(name, {}).get(str(length), {}).get(part)
    return (found["ms"] * 8 / found["heads"], found["mb"] * 8 / found["heads"]) if found else None


def table(cells: Cells, part: str, lengths: list[int]) -> str:
    lines = [f"| {PASSES[part]} | {' | '.join(map(str, lengths))} |", "|---" * (len(lengths) + 1) + "|"]
    for name in KERNELS:
        found = [cell(cells, name, length, part) for length in lengths]
        texts = ["–" if x is None else f"{x[0]:,.{0 if x[0] >= 100 else 1}f} ({x[1]:,.0f})" for x in found]
        lines.append(f"| {name} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def ratio(cells: Cells, one: tuple[str, int], two: tuple[str, int], *, part: str = "both", of: int = 0) -> float:
    """Time (of=0) or memory (of=1) of one cell over that of another; NaN where one is missing."""
    a, b = cell(cells, *one, part), cell(cells, *two, part)
    return a[of] / max(b[of], 0.1) if a and b else float("nan")


def checks(cells: Cells, turns: dict[str, dict[str, float]]) -> str:
    """What the project set out to reach, each with what was measured."""
    worst = max((x for found in turns.values() for x in found.values()), default=float("nan"))
    shares = ", ".join(f"{name} {found['forward']:.3f} / {found['both']:.3f}" for name, found in turns.items())
    local = ("local 1-D: regard", 8192)
    growth = ratio(cells, local, ("local 1-D: regard", 2048))
    faster = ratio(cells, ("causal: SDPA", 8192), local)
    ours, naive = ("relative: regard", 4096), ("relative: naive gather", 4096)
    smaller, quicker = ratio(cells, naive, ours, of=1), ratio(cells, naive, ours)
    one_head = smaller / 8
    additive = cell(cells, "additive: regard", 2048, "both")
    memory = additive[1] if additive else float("nan")
    lines = [
        (worst <= 1.05, f"fused path within 5% of SDPA called directly, the two in turn (forward / both): {shares}"),
        (
            growth <= 5,
            f"local 1-D grows linearly: four times the length (2048 to 8192) takes {growth:.1f} times as long",
        ),
        (faster >= 5, f"local 1-D at 8192 is at least 5 times as fast as full causal SDPA: {faster:.1f} times"),
        (
            smaller > 20,
            f"relative at 4096 uses less than 1/20 of the memory of the naive gather: 1/{smaller:.0f} "
            f"(1/{one_head:.0f} of one head's gather alone)",
        ),
        (quicker >= 2, f"relative at 4096 is at least twice as fast as the naive gather: {quicker:.1f} times"),
        (memory < 500, f"additive at 2048 x 2048 stays under 500 MB, forward and backward: {memory:.0f} MB"),
    ]
    return "\n".join(f"- {'reached' if kept else '**not reached**'}: {text}" for kept, text in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="leave out longer inputs, and write no files")
    parser.add_argument("--compare", action="store_true", help="compare with SDPA anew, and leave the table as it was")
    given = parser.parse_args()
    if given.compare:
        report = json.loads(FIGURES.read_text(encoding="utf-8"))
        keep(report | {"turns": turns(LENGTHS[-1])})
        return
    longest = given.longest
    lengths = [length for length in LENGTHS if length <= longest]
    where, start = machine(), time.perf_counter()
    cells: Cells = {}
    for length in lengths:
        for name, limit in KERNELS.items():
            if length <= limit:
                cells.setdefault(name, {})[str(length)] = run("measure", name, length)
        print(f"length {length}: {time.perf_counter() - start:.0f} s so far", file=sys.stderr)
    report = {"machine": where, "cells": cells, "turns": turns(longest), "seconds": time.perf_counter() - start}
    if longest >= LENGTHS[-1]:
        keep(report)
    else:
        print(page(report, lengths))


def turns(longest: int) -> dict[str, dict[str, float]]:
    """The fused path over SDPA called directly: the median of three processes, in each of which the two take turns."""
    found = {}
    for kind, length in ((kind, length) for kind in ("full", "causal") for length in COMPARED if length <= longest):
        rounds = [run("compare", kind, length) for _ in range(3)]
        found[f"{kind} {length}"] = {part: statistics.median(each[part] for each in rounds) for part in rounds[0]}
    return found


def page(report: dict, lengths: Sequence[int]) -> str:
    """The figures as they are read."""
    tables = "\n".join(table(report["cells"], part, list(lengths)) for part in PASSES)
    return TEXT.format(machine=report["machine"], tables=tables, checks=checks(report["cells"], report["turns"]))


def keep(report: dict) -> None:
    """Write figures and page, and print the page."""
    FIGURES.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    text = page(report, LENGTHS)
    FIGURES.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
