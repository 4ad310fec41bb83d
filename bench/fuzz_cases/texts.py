"""Unusual texts as inputs of runs: through Python, through a pipe, and in inspections."""

from __future__ import annotations

import random
from pathlib import Path

import regard
from fuzz_cases import Case, mutate
from fuzz_cases.calling import call
from fuzz_cases.samples import samples


class Kind:
    """Unusual texts."""

    def prepare(self, work: Path) -> None:
        self.samples = samples(work)
        self.runs = {sample.name: regard.load(sample.path) for sample in self.samples}

    def make(self, rng: random.Random, folder: Path) -> Case:
        sample = rng.choice(self.samples)
        run, text = self.runs[sample.name], mutate.text(rng, sample.text)
        how = rng.choices(["predict", "look", "pipe"], [85, 5, 10])[0]
        what = f"{sample.name}: {text[:40]!r} ({len(text)} characters) -> {how}"
        if how == "predict":
            texts = [text] if rng.random() < 0.7 else [text, sample.text, ""]
            return Case(what, lambda: run.predict(texts))
        if how == "look":
            return Case(what, lambda: run.look(text))
        lines = mutate.data(rng, f"{sample.text}\n{sample.text}\n".encode())
        return Case(what, lambda: call("predict", str(sample.path), "--workers", "1", stdin_bytes=lines))
