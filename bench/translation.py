"""Speed side by side: regard, a plain PyTorch loop, Hugging Face transformers and CTranslate2, in one run.

    pip install -e '.[ctranslate2]' -r bench/requirements.txt
    python bench/translation.py                              # everything: about an hour, on a quiet machine
    python bench/translation.py --only train-tiny --only single   # parts, by the beginning of their names

Every measurement is a process of its own; systems take turns, and the rounds are repeated. All get the same token
numbers, model shapes and batches, and each the setting it is fastest with. Decoding is of random weights with outputs
of 15 tokens, so that all do the same work; CTranslate2 has the very weights of the regard model. Numbers go to
docs/speed.json, with the page docs/speed.md made from them.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from systems import work

ROOT = Path(__file__).parents[1]
FIGURES, PAGE = ROOT / "docs" / "speed.json", ROOT / "docs" / "speed.md"
TRAIN = ["regard", "PyTorch loop", "transformers"]
FULL = ["CTranslate2 float32 1x2", "CTranslate2 float32 2x1", "CTranslate2 int8 2x1"]
ONE = ["CTranslate2 float32 1x1", "CTranslate2 float32 1x2", "CTranslate2 int8 1x1"]
WORKS = {
    "train-tiny": TRAIN,
    "train-base": TRAIN,
    "train-bahdanau": TRAIN[:2],
    "decode-tiny-greedy": [*TRAIN, *FULL],
    "decode-tiny-beam": ["regard", "transformers", *FULL],
    "decode-base-greedy": ["regard", "regard int8", "transformers", *FULL],
    "decode-base-beam": ["regard", "regard int8", "transformers", *FULL],
    "single-tiny-greedy": [*TRAIN, *ONE],
    "single-tiny-beam": ["regard", "transformers", *ONE],
    "single-base-greedy": ["regard", "regard int8", "transformers", *ONE],
    "corpus-tiny-greedy": ["regard", *FULL],
    "corpus-tiny-beam": ["regard", *FULL],
}
UNITS = {"train": "target tokens/s", "decode": "sentences/s", "single": "sentences/s", "corpus": "sentences/s"}
MEANING = {
    "train": "training step, real target tokens",
    "decode": "batches of 64 sentences",
    "single": "one sentence at a time",
    "corpus": "10,000 sentences, every system's own batches, its two processes or workers included",
}


def run(task: str, system: str, *, sentences: Path, seconds: float, folder: Path) -> dict[str, float]:
    """One measurement in a fresh process."""
    threads = "1" if system.startswith("regard") and not task.startswith("train") else str(os.cpu_count())
    environment = os.environ | {"OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-m", "systems.measure", task, system, sentences, str(seconds), folder]
    done = subprocess.run(command, cwd=ROOT / "bench", env=environment, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))
    raise SystemExit(f"{task} by {system} failed:\n{done.stdout}{done.stderr}")


def rounds(works: dict[str, list[str]], *, count: int, seconds: float) -> dict[str, Any]:
    """Every work by every system, in turns, `count` times."""
    found: dict[str, Any] = {task: {system: [] for system in systems} for task, systems in works.items()}
    with tempfile.TemporaryDirectory() as made:
        sentences = Path(made) / "sentences.json"
        work.prepare(sentences)
        for turn in range(count):
            for task, systems in works.items():
                for system in systems:
                    one = run(task, system, sentences=sentences, seconds=seconds, folder=Path(made))
                    found[task][system].append(one)
                    print(f"{turn + 1}/{count} {task:20} {system:24} {one['rate']:10.1f} {_unit(task)}", flush=True)
        real = work.load(sentences).real
    return {"machine": machine(real), "works": found}


def machine(real: bool) -> dict[str, str]:
    """Where this was measured."""
    names = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "ctranslate2")}
    return {
        "processor": f"{len(names)} x {names[0]}",
        "python": platform.python_version(),
        **versions,
        "data": "Multi30k en -> de" if real else "made, of the lengths of Multi30k",
    }


def _unit(task: str) -> str:
    return UNITS[task.split("-", maxsplit=1)[0]]


def rows(task: str, systems: dict[str, list[dict[str, float]]]) -> list[str]:
    """The table of one work: medians with their spread, and regard's ratio to each."""
    medians = {name: statistics.median(one["rate"] for one in found) for name, found in systems.items()}
    lines = []
    for name, found in systems.items():
        rates = [one["rate"] for one in found]
        ratio = f"{medians['regard'] / medians[name]:.2f}"
        if "regard int8" in medians:
            ratio += f" / {medians['regard int8'] / medians[name]:.2f}"
        memory = statistics.median(one["megabytes"] for one in found)
        spread = f"{min(rates):,.1f} to {max(rates):,.1f}"
        lines.append(f"| {name} | {medians[name]:,.1f} | {spread} | {ratio} | {memory:,.0f} |")
    return lines


def page(figures: dict[str, Any]) -> str:
    """docs/speed.md."""
    about = ", ".join(f"{name} {value}" for name, value in figures["machine"].items())
    parts = [
        "# Speed\n",
        "Written by `python bench/translation.py`, which says how; every number is in [speed.json](speed.json).",
        f"Measured on: {about}.\n",
        "The ratio is regard's rate divided by the row's (regard int8's behind a stroke). Memory is the most that the",
        "process and the largest of its children held.",
    ]
    for task, systems in figures["works"].items():
        kind = task.split("-")[0]
        parts += [f"\n## {task}\n", f"{MEANING[kind]}\n", f"| system | {UNITS[kind]} | spread | ratio | MB |"]
        parts += ["|---|---|---|---|---|", *rows(task, systems)]
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="parts, by the beginning of their names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    arguments = parser.parse_args()
    chosen = {t: s for t, s in WORKS.items() if not arguments.only or t.startswith(tuple(arguments.only))}
    if not chosen:
        raise SystemExit(f"--only {' '.join(arguments.only)}: there is {', '.join(WORKS)}")
    figures = rounds(chosen, count=arguments.rounds, seconds=arguments.seconds)
    if FIGURES.exists():
        old = json.loads(FIGURES.read_text())
        if old["machine"] == figures["machine"]:  # parts measured before stay
            both = old["works"] | figures["works"]
            figures["works"] = {task: both[task] for task in WORKS if task in both}
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    PAGE.write_text(page(figures), encoding="utf-8")
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
