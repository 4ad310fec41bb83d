"""Synthetic corpus of millions of pairs: the cost of encoding it once, and of each start from its files.

    python bench/corpus.py --pairs 5000000 --folder /tmp/regard-corpus

Memory is reported as by the kernel: private memory of the process, and mapped file pages, which the kernel can reclaim.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from regard.data.builtin import english_korean
from regard.tasks import translation

SEED_SENTENCES = 20_000


def write_text(path: Path, pairs: int) -> None:
    """Write lines of one to three built-in sentences each."""
    examples = english_korean.generate("train", SEED_SENTENCES, seed=1)
    chance = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(pairs):
            sentences = chance.choices(examples, k=chance.randint(1, 3))
            english, korean = (" ".join(side) for side in zip(*((e.source, e.target) for e in sentences), strict=True))
            file.write(f"{english}\t{korean}\n")


def memory() -> dict[str, float]:
    """Return gigabytes of this process: peak, private memory, and memory mapped from files."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    fields = {"peak": "VmHWM", "own": "RssAnon", "mapped": "RssFile"}
    return {name: round(int(status[key].split()[0]) / 2**20, 2) for name, key in fields.items()}


def start(config: translation.Config, folder: Path) -> None:
    """Do the work of a restart: open the corpus, plan an epoch, create batches."""
    started_at = time.perf_counter()
    task = translation.build(config, folder)
    pairs = task.corpus.num_pairs
    print(f"{pairs:,} pairs open after {time.perf_counter() - started_at:.2f} s, memory in GB {memory()}")
    plan = task.epoch_batches(0, 1)
    seconds = time.perf_counter() - started_at
    print(f"epoch of {len(plan):,} batches planned after {seconds:.2f} s, memory in GB {memory()}")
    started_at = time.perf_counter()
    for examples in plan[:500]:
        task.collate(examples)
    print(f"a batch takes {(time.perf_counter() - started_at) / 500 * 1e3:.2f} ms, memory in GB {memory()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--start", action="store_true", help="only start from existing files")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["REGARD_CACHE"] = str(folder)
    text = folder / "train.tsv"
    config = translation.Config(path=folder, vocab_size=2000, max_memory_mb=0)
    if arguments.start:
        start(config, folder)
        return
    if not text.exists():
        write_text(text.with_suffix(".part"), arguments.pairs)
        os.replace(text.with_suffix(".part"), text)
    print(f"{text.stat().st_size / 2**30:.2f} GB of text")
    for name in ("valid", "test"):
        (folder / f"{name}.tsv").write_text("A dog.\t개.\n", encoding="utf-8")
    started_at = time.perf_counter()
    task = translation.build(config)
    task.save(folder)
    print(f"vocabulary made after {time.perf_counter() - started_at:.0f} s, memory in GB {memory()}")
    started_at = time.perf_counter()
    pairs = task.corpus.num_pairs
    print(f"{pairs:,} pairs encoded after {time.perf_counter() - started_at:.0f} s, memory in GB {memory()}")
    for _ in range(2):
        subprocess.run([sys.executable, __file__, "--folder", str(folder), "--start"], check=True)


if __name__ == "__main__":
    main()
