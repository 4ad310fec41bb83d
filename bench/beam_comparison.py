"""Comparison of the two beam searches on trained runs: BLEU of `beam` and `full_beam`, and which one ranks higher.

    python bench/beam_comparison.py RUN [RUN …] [--widths 2 4 8] [--sources 200]

Both search the same sources. The default decoder of translation is the one with the better BLEU over the runs; the
table names it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import cast

import torch

import regard
from regard.api.run import Run
from regard.decoding.strategy import build
from regard.tasks.translation import Translation, metrics

NAMES = ("beam", "full_beam")


def measure(
    run: Run, name: str, *, width: int, sources: list[str], truth: list[str]
) -> tuple[float, list[float], float]:
    """Return BLEU, the ranking score of the best hypothesis of each source, and CPU seconds."""
    begin, task = time.process_time(), cast(Translation, run.task)
    decoding = build(name, beam_width=width, length_penalty=1.0)
    answers = task.predict(
        run.model, [run.parse_input(source) for source in sources], run.parse_request({})[0], decoding
    )
    best = [hypotheses[0] for hypotheses in answers]
    bleu = metrics.compute_metrics([answer.text for answer in best], truth, tokenize=task.bleu_tokenizer)["bleu"]
    return bleu, [answer.ranking_score for answer in best], time.process_time() - begin


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--widths", nargs="+", type=int, default=[2, 4, 8])
    parser.add_argument("--sources", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| run | width | beam | full_beam | full ranks higher | lower | seconds |\n|---|---|---|---|---|---|---|")
    for folder in options.runs:
        run = regard.load(folder)
        pairs = cast(Translation, run.task).split("test")[: options.sources]
        sources, truth = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        for width in options.widths:
            (bleu, ranks, seconds), (full_bleu, full_ranks, full_seconds) = (
                measure(run, name, width=width, sources=sources, truth=truth) for name in NAMES
            )
            higher = sum(after > before + 1e-6 for before, after in zip(ranks, full_ranks, strict=True))
            lower = sum(after < before - 1e-6 for before, after in zip(ranks, full_ranks, strict=True))
            times = f"{seconds:.1f}, {full_seconds:.1f}"
            print(
                f"| {folder.name} | {width} | {bleu:.2f} | {full_bleu:.2f} | {higher} | {lower} | {times} |", flush=True
            )


if __name__ == "__main__":
    main()
