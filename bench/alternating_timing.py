"""Comparison of systems on the same work: each in a separate process, alternating in every round. Figures are stored as
JSON in docs/, and a page is generated from them. bench/text.py and bench/images.py define comparisons."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.training.device import keep_freed_memory

DOCS = Path(__file__).parents[1] / "docs"
Work = Callable[[], float]  # does some work -> the number of units
Systems = dict[str, Callable[[], Work]]  # the first is regard


class Bench(NamedTuple):
    """The systems of a comparison (small ones for a smoke test), and their measurement."""

    systems: Callable[[bool], Systems]
    peers: int  # systems other than regard
    unit: str  # tokens/s; bytes
    seconds: float = 5.0  # minimum duration of the work; 0: run once, the figure is its result, and less is better
    warm: bool = True  # run once before the measurement: the first call of a kernel is slow


@dataclass(frozen=True)
class Comparison:
    """Benchmarks of one script; figures are stored in docs/<figures>, the page in docs/<page>."""

    script: str
    title: str
    benches: Mapping[str, Bench]
    figures: str
    page: str
    decimals: int = 0  # of the figures on the page

    def rows(self, name: str, figures: dict[str, Any]) -> list[list[str]]:
        """Return the rows of the table; the ratio is above 1 if regard is better."""
        bench, rates = self.benches[name], figures["rates"]
        regard_median = statistics.median(rates["regard"])
        rows = []
        for system, values in rates.items():
            middle, *ends = (
                f"{value:,.{self.decimals}f}" for value in (statistics.median(values), min(values), max(values))
            )
            better = (
                regard_median / statistics.median(values)
                if bench.seconds
                else statistics.median(values) / regard_median
            )
            ratio = "" if system == "regard" else f"{better:.2f}"
            rows.append([name, system, f"{middle} {bench.unit}", " – ".join(ends), ratio])
        return rows

    def text(self, figures: dict[str, Any]) -> str:
        """Return the page."""
        names = [name for name in self.benches if name in figures]
        threads = sorted({figures[name]["threads"] for name in names})
        lines = [
            f"# {self.title}",
            "",
            f"Written by `python bench/{Path(self.script).name}` on {os.cpu_count()} cores,"
            f" {', '.join(map(str, threads))} threads. Its module docstring describes the comparisons."
            " The table has the median of the rounds and the range.",
            "",
            "| benchmark | system | median | range | advantage of regard, factor |",
            "|---|---|---|---|---|",
        ]
        rows = (row for name in names for row in self.rows(name, figures[name]))
        return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"

    def run(self, description: str | None) -> None:
        """Run the command line of the script."""
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("benches", nargs="*", help=", ".join(self.benches))
        parser.add_argument("--rounds", type=int, default=3)
        parser.add_argument("--quick", action="store_true", help="smoke test with tiny shapes; nothing is stored")
        parser.add_argument("--worker", nargs=2, metavar=("BENCH", "NUMBER"), help=argparse.SUPPRESS)
        args = parser.parse_args()
        if args.worker:
            name, index = args.worker
            print(json.dumps(work_in_this_process(self.benches[name], int(index), quick=args.quick)))
            return
        stored = json.loads((DOCS / self.figures).read_text()) if (DOCS / self.figures).exists() else {}
        for name in args.benches or self.benches:
            stored[name] = self.measure(name, rounds=args.rounds, quick=args.quick)
            for row in self.rows(name, stored[name]):
                print("  ".join(row), flush=True)
            if not args.quick:
                (DOCS / self.figures).write_text(json.dumps(stored, indent=1) + "\n")
                (DOCS / self.page).write_text(self.text(stored))

    def measure(self, name: str, *, rounds: int, quick: bool) -> dict[str, Any]:
        """Return the rates of each system per round, by wall time and by CPU time; other figures are measured once."""
        figures: dict[str, Any] = {"threads": torch.get_num_threads(), "rates": {}, "per_processor_second": {}}
        bench = self.benches[name]
        for _ in range(rounds if bench.seconds else 1):
            for index in range(1 + bench.peers):
                command = [sys.executable, self.script, "--worker", name, str(index), *(["--quick"] if quick else [])]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                result = json.loads(done.stdout.splitlines()[-1])
                for kind in ("rates", "per_processor_second"):
                    figures[kind].setdefault(result["system"], []).append(result[kind])
        return figures


def work_in_this_process(bench: Bench, number: int, *, quick: bool) -> dict[str, Any]:
    """Return the name of one system and its units of work per second, or its figure."""
    if number == 0:
        keep_freed_memory()  # as regard's own commands do
    torch.manual_seed(0)
    system, build = list(bench.systems(quick).items())[number]
    work = build()
    if not bench.seconds:
        return {"system": system, "rates": work(), "per_processor_second": None}
    if bench.warm:
        work()
    least = min(0.1, bench.seconds) if quick else bench.seconds
    started_at, processor, units, seconds = time.perf_counter(), time.process_time(), 0.0, 0.0
    while seconds < least:
        units += work()
        seconds = time.perf_counter() - started_at
    spent = time.process_time() - processor
    return {"system": system, "rates": units / seconds, "per_processor_second": units / spent}


def training(model: torch.nn.Module, loss: Callable[[], torch.Tensor], units: int, *, fused: bool) -> Work:
    """Return a training step; the optimizer of peers is that of their own scripts on a CPU."""
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-3, fused=fused or None)

    def step() -> float:
        value = loss()
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return units

    return step
