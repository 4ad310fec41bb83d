"""The workload of all systems: model shapes, sentences as token ids, batches, and timing."""

from __future__ import annotations

import gzip
import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PAD, UNKNOWN, START, END = 0, 1, 2, 3
VOCABULARY = 8000
LENGTH = 15  # tokens of every output: random weights never predict EOS, and all systems do the same work
MULTI30K = Path(__file__).parents[2] / ".." / "shared" / "data" / "multi30k"
Rows = list[list[int]]


@dataclass(frozen=True)
class Shape:
    """Shape of a Transformer, and the padded tokens of its training batches."""

    layers: int
    dim: int
    hidden: int
    heads: int
    dropout: float
    tokens: int


SHAPES = {"tiny": Shape(4, 128, 256, 4, 0.3, 4096), "base": Shape(6, 512, 2048, 8, 0.1, 2048)}


@dataclass(frozen=True)
class Sentences:
    """Rows of token ids without special tokens."""

    source: Rows
    target: Rows
    test: Rows

    def batches(self, tokens: int) -> Iterator[tuple[Rows, Rows]]:
        """Yield batches as regard plans them, for all systems: a few percent of padding."""
        from regard.data import batching

        lengths = [np.array([len(row) + 1 for row in side]) for side in (self.source, self.target)]
        plan = batching.epoch_batches(*lengths, candidates=np.arange(len(self.source)), budget=tokens, seed=1, epoch=0)
        while True:
            for chosen in plan:
                yield [self.source[i] for i in chosen], [self.target[i] for i in chosen]


def prepare(path: Path) -> None:
    """Write the sentences: Multi30k English -> German with a joint vocabulary, or random ones of similar length."""
    if has_multi30k():
        from regard.data.text import tokenizer as tokenizers

        names = ("train.en", "train.de", "test_2016_flickr.en")
        texts = [gzip.decompress((MULTI30K / f"{n}.gz").read_bytes()).decode("utf-8").splitlines() for n in names]
        tokenizer = tokenizers.train(texts[0] + texts[1], level="bpe", size=VOCABULARY, lowercase=False, minimum=1)
        rows = [tokenizer.encode(part) for part in texts]
    else:
        source, test = random_rows(29_000, 1), random_rows(1_000, 3)
        rows = [source, answers(source, 2), test]
    path.write_text(json.dumps(rows))


def texts() -> tuple[list[str], Any]:
    """Return texts to translate and their tokenizer: those of Multi30k, or token ids as words."""
    from regard.data.text import tokenizer as tokenizers

    if not has_multi30k():
        rows = [" ".join(f"w{token}" for token in row) for row in random_rows(12_000, 5)]
        words = [f"w{token}" for token in range(VOCABULARY)]
        return rows, tokenizers.train(words, level="word", size=VOCABULARY)
    names = ("train.en", "train.de")
    english, german = (gzip.decompress((MULTI30K / f"{n}.gz").read_bytes()).decode("utf-8").splitlines() for n in names)
    return english[:12_000], tokenizers.train(english + german, level="bpe", size=VOCABULARY)


def has_multi30k() -> bool:
    """Return True if Multi30k is available."""
    return (MULTI30K / "train.en.gz").exists()


def random_rows(count: int, seed: int) -> Rows:
    """Return random rows with the length distribution of Multi30k: mean 14.5, most below 25, none above 48."""
    random = np.random.default_rng(seed)
    lengths = np.clip(random.lognormal(np.log(13.7), 0.33, count).round(), 4, 48).astype(int)
    return [random.integers(4, VOCABULARY, length).tolist() for length in lengths]


def answers(rows: Rows, seed: int) -> Rows:
    """Return random rows about as long as these."""
    random = np.random.default_rng(seed)
    factors = random.normal(1, 0.15, len(rows))
    lengths = [max(4, round(len(row) * factor)) for row, factor in zip(rows, factors, strict=True)]
    return [random.integers(4, VOCABULARY, length).tolist() for length in lengths]


def load(path: Path) -> Sentences:
    """Load the sentences that `prepare` wrote."""
    return Sentences(*json.loads(path.read_text()))


def groups(rows: Rows, size: int) -> list[Rows]:
    """Return batches of similar length, with EOS, shuffled so that a short measurement has short and long ones."""
    rows = sorted(([*row, END] for row in rows), key=len)
    cut = [rows[i : i + size] for i in range(0, len(rows), size)]
    return [cut[i] for i in np.random.default_rng(1).permutation(len(cut))]


def middle(parts: list[Rows], count: int) -> list[Rows]:
    """Return `count` batches of medium length, for systems and models that are too slow for all of them."""
    ordered = sorted(parts, key=lambda part: len(part[-1]))
    begin = max(0, (len(ordered) - count) // 2)
    return ordered[begin : begin + count]


def rate(step: Callable[[], int], *, seconds: float, least: int = 3, warm: Callable[[], object] | None = None) -> float:
    """Return the units per second of `step`, run for `seconds` after `warm` or one uncounted step."""
    (warm or step)()
    done, steps, started_at = 0, 0, time.perf_counter()
    while steps < least or time.perf_counter() - started_at < seconds:
        done += step()
        steps += 1
    return done / (time.perf_counter() - started_at)


def seconds_of(step: Callable[[], object], *, least: int, budget: float) -> float:
    """Return the median time of at least `least` steps after an uncounted one; more within the budget."""
    step()
    durations: list[float] = []
    while len(durations) < least or sum(durations) < budget:
        started_at = time.perf_counter()
        step()
        durations.append(time.perf_counter() - started_at)
    return statistics.median(durations)


def memory() -> float:
    """Return the peak memory of this process plus that of its largest child, in MB."""
    return sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024


def since_start() -> float:
    """Return the seconds since this process started."""
    ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    return float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
