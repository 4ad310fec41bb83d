"""Cost of relative attention, speed of the KV cache, and scores beyond the training length.

python bench/music.py skewing                    memory and time against the O(L²D) algorithm, L = 650, 2048, 3500
python bench/music.py sampling RUN               tokens/s at length 2048, cached against recomputing the prefix
python bench/music.py positions RUN…             nats by position up to 2048, one line per run, and a plot
python bench/music.py similarity RUN             similarity of bars by distance: samples, test and validation split

Each prints its table, stores it in docs/music.json and writes docs/results.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import results_page
import torch
from torch import Tensor

from regard.api.run import load
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.score import ScoreFunction
from regard.attention.scores import build as build_score
from regard.core.protocols import Padded
from regard.data.music.self_similarity import (
    WINDOW_SECONDS,
    best_earlier,
    by_lag,
    grid_bars,
    performance_bars,
    similarity_error,
)
from regard.layers.positions.relative import Relative

LENGTHS = (650, 2048, 3500)
HEAD = 64
BUCKET = 128


class Gathered(Relative):
    """The same score by a vector for every pair, as in Shaw et al. 2018: a (t s d) tensor."""

    def score(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Tensor:
        farthest = self.table.shape[1] - 1
        queries = torch.arange(query_offset, query_offset + q.shape[-2])[:, None]
        steps = (queries - torch.arange(k.shape[-2])).clamp(0, farthest)
        vectors = self.table[:, farthest - steps]  # (h t s d)
        scores: Tensor = score(q, k) + torch.einsum("bhtd,htsd->bhts", q * q.shape[-1] ** -0.5, vectors)
        return scores


class Whole(Attend):
    """Without chunks, so that memory is that of the formula."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = Mask()) -> Tensor:
        weights: Tensor = self.weigh(q, k, mask)
        return weights @ v


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_attention(way: str, length: int) -> tuple[float, float]:
    """One head, forward and backward -> MB above what was there before, and seconds (the best of three)."""
    torch.manual_seed(0)
    position_bias = (Gathered if way == "gather" else Relative)(1, HEAD, max_distance=length, max_ahead=0)
    attend = (Attend if way == "skewing in chunks" else Whole)(
        build_score("scaled_dot", HEAD), position_bias=position_bias
    )
    q, k, v = (torch.randn(1, 1, length, HEAD, requires_grad=True) for _ in range(3))
    before, times = peak(), []
    for _ in range(3):
        begin = time.perf_counter()
        attend(q, k, v, Mask.causal()).square().mean().backward()
        times.append(time.perf_counter() - begin)
    return peak() - before, min(times)


def skewing() -> list[dict[str, Any]]:
    """Measure each case in a separate process, because a process does not return its peak memory."""
    results = []
    for length in LENGTHS:
        for way in ("gather", "skewing", "skewing in chunks"):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                memory, seconds = pool.apply(measure_attention, (way, length))
            results.append({"length": length, "way": way, "mb": memory, "seconds": seconds})
    return results


@torch.inference_mode()
def sampling(folder: Path, length: int) -> dict[str, Any]:
    """Measure batch 1. The cached run is timed completely; recomputation is timed at every 64th length and summed."""
    run = load(folder)
    model, task = run.model.eval(), run.task
    none = Padded(torch.zeros(1, 1, dtype=torch.long), torch.ones(1, dtype=torch.long))
    tokens = torch.randint(5, task.spec.vocab_size, (1, length), generator=torch.Generator().manual_seed(0))
    tokens[0, 0] = task.special_tokens.bos
    state, begin = model.start(none), time.perf_counter()
    for position in range(length):
        logits, state = model(tokens[:, position : position + 1], state)
        torch.multinomial(logits[0, -1].exp(), 1)
    cached = time.perf_counter() - begin
    stride, recomputed = 64, 0.0
    for end in range(stride // 2, length, stride):
        begin = time.perf_counter()
        model(tokens[:, :end], model.start(none))
        recomputed += stride * (time.perf_counter() - begin)
    return {
        "run": folder.name,
        "length": length,
        "threads": torch.get_num_threads(),
        "cached": cached,
        "recomputed": recomputed,
    }


def joined(task, length: int) -> np.ndarray:
    """Pieces of valid and test, in whole bars, end to end -> rows (n length): equal music at every position."""
    bar = task.encoding.tokens_per_bar
    rows = [task.encoding.encode(piece.content) for split in ("valid", "test") for piece in task.split(split)]
    flat = np.concatenate([row[: len(row) // bar * bar] for row in rows])
    return flat[: len(flat) // length * length].reshape(-1, length)


@torch.inference_mode()
def nats_by_position(folder: Path, length: int) -> np.ndarray:
    """Return mean -log p (length / BUCKET) of the tokens in each range of positions, with the complete past visible."""
    run = load(folder)
    task, model = run.task, run.model.eval()
    rows = torch.from_numpy(joined(task, length))
    total = np.zeros(length)
    for row in rows:
        tokens = torch.cat([torch.tensor([task.special_tokens.bos]), row])[None]
        none = Padded(torch.zeros(1, 1, dtype=torch.long), torch.ones(1, dtype=torch.long))
        logits, _ = model(tokens[:, :-1], model.start(none))
        total += -logits[0].log_softmax(-1).gather(-1, tokens[0, 1:, None])[:, 0].double().numpy()
    return (total / len(rows)).reshape(-1, BUCKET).mean(axis=1)


def positions(folders: list[Path], length: int) -> dict[str, Any]:
    """Return one curve per run, named after its positions, and draw the plot of all."""
    before = results_page.stored(results_page.MUSIC).get("positions", {"bucket": BUCKET, "curves": {}})
    same = before["bucket"] == BUCKET  # curves of runs that are not given are kept, where they can be compared
    curves = {name: curve for name, curve in before["curves"].items() if same and len(curve) == length // BUCKET}
    measured: dict[str, list[float]] = {}
    for folder in folders:
        name = load(folder).recipe.model.config.position
        measured[name if name not in measured else folder.name] = nats_by_position(folder, length).tolist()
    curves |= measured
    plot(curves, trained=load(folders[0]).recipe.task.config.crop)
    return {"bucket": BUCKET, "curves": curves}


def plot(curves: dict[str, list[float]], *, trained: int) -> None:
    """Write docs/images/music_positions.png."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, curve in curves.items():
        axes.plot((np.arange(len(curve)) + 0.5) * BUCKET, curve, marker="o", markersize=3, label=name)
    axes.axvline(trained, color="0.6", linestyle="--", label="training length")
    axes.set(xlabel="position (tokens)", ylabel="nats per note token", ylim=(0, None))
    axes.set_title("Beyond the training length")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(results_page.DOCS / "images" / "music_positions.png", dpi=150)


def similarity(folder: str, samples: int) -> dict[str, Any]:
    """Compare the self-similarity of samples with that of the test split; the validation split gives the scale."""
    run = load(folder)
    task: Any = run.task
    is_grid = bool(task.encoding.tokens_per_step)
    pieces = run.generate(n=samples)
    bars = {
        "samples": [
            grid_bars(task.encoding.decode(piece.value.tokens)) if is_grid else performance_bars(piece.notes)
            for piece in pieces
        ]
    }
    for split in ("test", "valid"):
        contents = [piece.content for piece in task.split(split)]
        bars[split] = [grid_bars(content) if is_grid else performance_bars(content) for content in contents]
    return {
        "run": str(folder),
        "unit": "bars" if is_grid else f"windows of {WINDOW_SECONDS:g} seconds",
        "pieces": {name: len(part) for name, part in bars.items()},
        "by_lag": {name: by_lag(part).tolist() for name, part in bars.items()},
        "best_earlier": {name: float(np.mean([best_earlier(piece) for piece in part])) for name, part in bars.items()},
        "error": {name: similarity_error(bars[name], bars["test"]) for name in ("samples", "valid")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("skewing", "sampling", "positions", "similarity"))
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--samples", type=int, default=40)
    args = parser.parse_args()
    if args.what != "skewing" and not args.runs:
        parser.error(f"{args.what} needs a run folder")
    results: Any
    if args.what == "skewing":
        results = skewing()
    elif args.what == "sampling":
        results = sampling(Path(args.runs[0]), args.length)
    elif args.what == "similarity":
        results = similarity(args.runs[0], args.samples)
    else:
        results = positions([Path(run) for run in args.runs], args.length)
    print(getattr(results_page, args.what)(results))
    results_page.store(results_page.MUSIC, results_page.stored(results_page.MUSIC) | {args.what: results})


if __name__ == "__main__":
    main()
