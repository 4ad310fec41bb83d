"""What every system is given: shapes, sentences as token numbers, batches; and how it is timed."""

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
LENGTH = 15  # tokens of every output: random weights know no end, and all systems do the same work
MULTI30K = Path(__file__).parents[2] / ".." / "shared" / "data" / "multi30k"
Rows = list[list[int]]


@dataclass(frozen=True)
class Shape:
    """A Transformer, and the padded tokens of its training batches."""

    layers: int
    dim: int
    hidden: int
    heads: int
    dropout: float
    tokens: int


SHAPES = {"tiny": Shape(4, 128, 256, 4, 0.3, 4096), "base": Shape(6, 512, 2048, 8, 0.1, 2048)}


@dataclass(frozen=True)
class Sentences:
    """Rows without marks."""

    source: Rows
    target: Rows
    test: Rows

    def batches(self, tokens: int) -> Iterator[tuple[Rows, Rows]]:
        """The batches of regard's own plan, for everybody: padding of a few per cent."""
        from regard.data import batching

        lengths = [np.array([len(row) + 1 for row in side]) for side in (self.source, self.target)]
        plan = batching.epoch_batches(*lengths, candidates=np.arange(len(self.source)), budget=tokens, seed=1, epoch=0)
        while True:
            for chosen in plan:
                yield [self.source[i] for i in chosen], [self.target[i] for i in chosen]


def prepare(path: Path) -> None:
    """Write the sentences: Multi30k English -> German in a joint vocabulary, or made ones of such lengths."""
    if has_multi30k():
        from regard.data.text import tokenizer as tokenizers

        names = ("train.en", "train.de", "test_2016_flickr.en")
        texts = [gzip.decompress((MULTI30K / f"{n}.gz").read_bytes()).decode("utf-8").splitlines() for n in names]
        tokenizer = tokenizers.train(texts[0] + texts[1], level="bpe", size=VOCABULARY, lowercase=False, minimum=1)
        rows = [tokenizer.encode(part) for part in texts]
    else:
        source, test = made(29_000, 1), made(1_000, 3)
        rows = [source, answers(source, 2), test]
    path.write_text(json.dumps(rows))


def texts() -> tuple[list[str], Any]:
    """Texts to translate, and the tokenizer of the sentences: those of Multi30k, or numbers as words."""
    from regard.data.text import tokenizer as tokenizers

    if not has_multi30k():
        rows = [" ".join(f"w{token}" for token in row) for row in made(12_000, 5)]
        words = [f"w{token}" for token in range(VOCABULARY)]
        return rows, tokenizers.train(words, level="word", size=VOCABULARY)
    names = ("train.en", "train.de")
    english, german = (gzip.decompress((MULTI30K / f"{n}.gz").read_bytes()).decode("utf-8").splitlines() for n in names)
    return english[:12_000], tokenizers.train(english + german, level="bpe", size=VOCABULARY)


def has_multi30k() -> bool:
    """Whether real sentences are at hand."""
    return (MULTI30K / "train.en.gz").exists()


def made(count: int, seed: int) -> Rows:
    """Random rows whose lengths are spread as in Multi30k: mean 14.5, most below 25, none above 48."""
    random = np.random.default_rng(seed)
    lengths = np.clip(random.lognormal(np.log(13.7), 0.33, count).round(), 4, 48).astype(int)
    return [random.integers(4, VOCABULARY, length).tolist() for length in lengths]


def answers(rows: Rows, seed: int) -> Rows:
    """Random rows about as long as these."""
    random = np.random.default_rng(seed)
    factors = random.normal(1, 0.15, len(rows))
    lengths = [max(4, round(len(row) * factor)) for row, factor in zip(rows, factors, strict=True)]
    return [random.integers(4, VOCABULARY, length).tolist() for length in lengths]


def load(path: Path) -> Sentences:
    """The sentences that `prepare` wrote."""
    return Sentences(*json.loads(path.read_text()))


def groups(rows: Rows, size: int) -> list[Rows]:
    """Batches of like length, with end marks, in a mixed order: a short measurement sees short and long ones."""
    rows = sorted(([*row, END] for row in rows), key=len)
    cut = [rows[i : i + size] for i in range(0, len(rows), size)]
    return [cut[i] for i in np.random.default_rng(1).permutation(len(cut))]


def middle(parts: list[Rows], count: int) -> list[Rows]:
    """So many of the batches, those of middle length: for systems and models too slow for all of them."""
    ordered = sorted(parts, key=lambda part: len(part[-1]))
    begin = max(0, (len(ordered) - count) // 2)
    return ordered[begin : begin + count]


def rate(step: Callable[[], int], *, seconds: float, least: int = 3, warm: Callable[[], object] | None = None) -> float:
    """Run `step` for so long, after `warm` or a step that is not counted; what it counts, per second."""
    (warm or step)()
    done, steps, started_at = 0, 0, time.perf_counter()
    while steps < least or time.perf_counter() - started_at < seconds:
        done += step()
        steps += 1
    return done / (time.perf_counter() - started_at)


def seconds_of(step: Callable[[], object], *, least: int, budget: float) -> float:
    """The median time of a step, after one that is not counted; at least so many, and more within the budget."""
    step()
    durations: list[float] = []
    while len(durations) < least or sum(durations) < budget:
        started_at = time.perf_counter()
        step()
        durations.append(time.perf_counter() - started_at)
    return statistics.median(durations)


def memory() -> float:
    """Megabytes at most held by this process, and by the largest of its children."""
    return sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024


def since_start() -> float:
    """Seconds since this process was started."""
    ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    return float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
