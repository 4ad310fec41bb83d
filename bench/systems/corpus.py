"""Translation of a file as one job: lines of token ids in, lines of token ids out, in order.

regard: the code of `regard translate` with a tokenizer of token ids. It includes chunks of lines, the lifetime of the
worker processes and batches by length. CTranslate2: all lines are submitted together, and it sorts and batches them.
The fastest of a few batch sizes is used; the search for it is not timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from systems import ct2, paths, workload

BATCHES = ((32, "examples"), (64, "examples"), (256, "examples"), (2048, "tokens"), (4096, "tokens"))
TRIED = {1: 1500, 5: 600}  # lines, by the width of the beam
LONGEST = 128  # tokens of an output, at most
Job = Callable[[list[str]], list[str]]


def lines_of(sentences: workload.Sentences, count: int) -> list[str]:
    """Return sentences as lines of token ids."""
    return [" ".join(map(str, row)) for row in sentences.source[:count]]


def measure(job: Job, lines: list[str]) -> dict[str, Any]:
    """Return the rate of one job, and the mean length of its outputs."""
    started_at = time.perf_counter()
    outputs = job(lines)
    seconds = time.perf_counter() - started_at
    if len(outputs) != len(lines):
        raise SystemExit(f"{len(outputs)} lines came out of {len(lines)}")
    return {"rate": len(lines) / seconds, "length": sum(len(line.split()) for line in outputs) / len(outputs)}


class TokenIdTokenizer:
    """A tokenizer whose texts are token ids."""

    vocab_size = workload.VOCABULARY
    spelling_tokens = frozenset[int]()  # no token spells a word

    def encode(self, texts: Sequence[str]) -> workload.Rows:
        return [[int(token) for token in text.split()] for text in texts]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [" ".join(map(str, row)) for row in rows]


def regard_job(folder: Path, *, width: int, engine: str = "native") -> Job:
    """Return the job of `regard translate --engine …` between reading and printing lines."""
    from regard.api.run import Run
    from regard.cli import predict_loop
    from regard.core.cpu import available_cores
    from regard.data.text.tokenizer import TokenizerPair
    from regard.tasks.translation import Translation
    from regard.training import recipe as recipes
    from regard.training.device import keep_freed_memory
    from regard.training.load_run import LoadedRun
    from systems import regard_system

    keep_freed_memory()
    settings = ["decoding=greedy"] if width == 1 else ["decoding=beam", f"decoding.beam_width={width}"]
    recipe = recipes.read("translation", settings=[*settings, f"data.max_length={LONGEST}"])
    tokenizer: Any = TokenIdTokenizer()
    task = Translation(recipe.task.config, TokenizerPair(tokenizer, tokenizer))
    run = Run(LoadedRun(folder, recipe, task, regard_system.load(folder, paths.ENDING)), engine=engine)

    def job(lines: list[str]) -> list[str]:
        work = lambda piece: [answers[0].text for answers in run.predict(piece)]  # noqa: E731  # an argument
        cut = predict_loop.split_chunks(lines, available_cores())
        return list(
            chain.from_iterable(predict_loop.predict_chunks(work, cut, model=run.model, processes=available_cores()))
        )

    return job


def ctranslate2_job(folder: Path, system: str, *, width: int, sample: list[str]) -> tuple[Job, str]:
    """Return the job with the batch size that is fastest on the sample, and that batch size."""
    engine = ct2.translator(paths.exported(folder, paths.ENDING), ct2.Setting.read(system))

    def job(lines: list[str], batch: tuple[int, str]) -> list[str]:
        rows = [[*line.split(), str(workload.END)] for line in lines]
        size, kind = batch
        options = {"beam_size": width, "max_decoding_length": LONGEST}
        results = engine.translate_batch(rows, max_batch_size=size, batch_type=kind, **options)
        return [" ".join(result.hypotheses[0]) for result in results]

    lines_ = sample[: TRIED[width]]
    job(lines_[:100], BATCHES[1])  # warm
    rates = {batch: measure(lambda lines, batch=batch: job(lines, batch), lines_)["rate"] for batch in BATCHES}
    best = max(rates, key=lambda batch: rates[batch])
    return lambda lines: job(lines, best), f"{best[0]} {best[1]}"
