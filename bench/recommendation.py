"""Recommendation: metrics of runs next to baselines, and speed.

python bench/recommendation.py ranking RUNS      RUNS/<recipe>-<seed>/ are runs; means over seeds, baselines of one
python bench/recommendation.py baselines         the baselines of next-item prediction, without a run
python bench/recommendation.py scoring RUN       all items for all users of a run: seconds
python bench/recommendation.py million           1,000,000 items × 10,000 users: exact in chunks, and by an index
python bench/recommendation.py training [--data ../shared/data/ml-100k] [--recbole PYTHON]
                                                 choices/s of SASRec of the same shape: regard, plain PyTorch, and
                                                 RecBole in an interpreter that has it

Each prints its table, stores it in docs/recommendation.json and writes docs/results.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import results_page
import torch
from recommendation_page import BASELINES, FIGURES

from regard.api.run import Run, load
from regard.core.data_specs import RecommendationSpec
from regard.core.protocols.recommender import ItemCatalog
from regard.data.ratings.splits import TEST
from regard.layers import item_softmax
from regard.models import recommender, sasrec
from regard.tasks import recommendation
from regard.tasks.recommendation import recommend
from regard.training import recipe as recipes
from regard.training import stored_evaluations
from systems.sasrec_peer import PlainSASRec

ITEMS, USERS, WIDTH, TOP = 1_000_000, 10_000, 64, 10
ROUNDS = 3
BATCHES = 8  # batches of 256 choices that RecBole is timed on
Figures = dict[str, Any]


def keep(name: str, results: Any) -> None:
    """Store an entry in the file and write the page."""
    results_page.store(FIGURES, results_page.stored(FIGURES) | {name: results})


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ranking(runs: Path) -> None:
    """Compute test metrics of the runs of each recipe, and those of the baselines once."""
    results: dict[str, list[Figures]] = {}
    baselines: Figures = results_page.stored(FIGURES).get("baselines", {})
    for folder in sorted(path for path in runs.iterdir() if (path / "model.safetensors").exists()):
        name, _, seed = folder.name.rpartition("-")
        run = load(folder)
        scores = _scores(run)
        config: Any = run.recipe.task.config
        if config.objective == "next" and not (
            config.cold_users or config.cold_items
        ):  # other runs have separate baselines
            baselines |= {key: value for key, value in scores.items() if key.startswith(BASELINES)}
        scores = {
            key: value for key, value in scores.items() if config.objective != "next" or not key.startswith(BASELINES)
        }
        minutes = sum(row["seconds"] for row in _rows(folder / "timing.jsonl")) / 60
        results.setdefault(name, []).append(
            {**scores, "seed": int(seed), "minutes": minutes, "parameters": run.parameters}
        )
        print(name, seed, {key: round(value, 4) for key, value in scores.items()}, flush=True)
    old = results_page.stored(FIGURES).get("ranking", {})
    for name, now in results.items():
        seeds = {run["seed"] for run in now}
        results[name] = sorted([*now, *(run for run in old.get(name, []) if run["seed"] not in seeds)], key=_seed)
    keep("ranking", old | results)
    keep("baselines", baselines)


def rank_baselines(data: Path) -> None:
    """Compute the test metrics of the baselines on the data of the recipe ml100k_recommender."""
    file = results_page.ROOT / "recipes" / "ml100k_recommender.toml"
    task: Any = recommendation.build(recipes.read("recommendation", file, settings=[f"data.path={data}"]).task.config)
    scores = task.evaluation.popularity_metrics(TEST) | task.evaluation.baseline_metrics(TEST)
    print({key: round(value, 4) for key, value in scores.items()})
    keep("baselines", results_page.stored(FIGURES).get("baselines", {}) | scores)


def _seed(run: Figures) -> int:
    return int(run["seed"])


def _scores(run: Run) -> Figures:
    """Read the scores that `regard evaluate` stored in the run folder, or compute them."""
    for report in stored_evaluations.read_all(run.folder, run.recipe.task.name):
        if report["split"] == "test":
            return dict(report["scores"])
    return run.evaluate("test") | run.extra_metrics("test")


def _rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def scoring(folder: Path) -> None:
    """Time the exact scores of all items for all users of a run."""
    run = load(folder)
    task: Any = run.task
    model: Any = run.model
    users = np.arange(len(task.data.users.ids))
    seconds = []
    for _ in range(ROUNDS):
        started_at = time.perf_counter()
        with torch.no_grad():
            for low in range(0, len(users), 256):
                batch_users = users[low : low + 256].tolist()
                rows = [
                    np.arange(task.data.starts[u], task.data.starts[u + 1])[-task.config.max_history :]
                    for u in batch_users
                ]
                batch = task.histories.user_batch(batch_users, rows)
                catalog = task.histories.catalog
                states = model.states(batch, catalog)[torch.arange(len(batch_users)), batch.lengths]
                item_softmax.top_items(model, states, catalog, count=TOP)
        seconds.append(time.perf_counter() - started_at)
    figures = {"users": len(users), "items": len(task.data.items.ids), "seconds": statistics.median(seconds)}
    print(figures)
    keep("scoring", figures)


def million() -> None:
    """Measure a synthetic catalog: clusters of items, and users near some of them."""
    torch.manual_seed(0)
    sizes = RecommendationSpec(num_users=0, num_items=ITEMS, user_field_dims=(), item_field_dims=(), max_length=2)
    model = recommender.build(recommender.Config(layers=0, dim=WIDTH, item_dropout=0.0), sizes).eval()
    groups = torch.randn(2000, WIDTH)
    with torch.no_grad():
        model.items.own.weight[1:] = groups[torch.randint(2000, (ITEMS,))] + 0.7 * torch.randn(ITEMS, WIDTH)
        states = groups[torch.randint(2000, (USERS,))] + 0.7 * torch.randn(USERS, WIDTH)
        catalog, before, started_at = (
            ItemCatalog(torch.arange(1, ITEMS + 1), torch.zeros(ITEMS, 0)),
            peak(),
            time.perf_counter(),
        )
        exact = torch.cat(
            [item_softmax.top_items(model, part, catalog, count=TOP).indices for part in states.split(500)]
        )
        seconds = time.perf_counter() - started_at
        memory = peak() - before
        print(f"exact: {USERS / seconds:,.0f} users/s, {memory:,.0f} MB more", flush=True)
        started_at = time.perf_counter()
        index, queries = recommend.build_index(model, states, catalog)
        built = time.perf_counter() - started_at
        print(f"index: {built:,.0f} s", flush=True)
        started_at = time.perf_counter()
        near = index.search(queries, TOP).indices
        quick = time.perf_counter() - started_at
    shared = [len(set(a) & set(b)) / TOP for a, b in zip(exact.tolist(), near.tolist(), strict=True)]
    results = {
        "items": ITEMS,
        "users": USERS,
        "exact": USERS / seconds,
        "megabytes": memory,
        "approximate": USERS / quick,
        "recall": statistics.mean(shared),
        "index_seconds": built,
        "threads": torch.get_num_threads(),
    }
    print(results)
    keep("million", results)


def training(path: Path, recbole: Path | None) -> None:
    """Time one epoch over the same histories, systems in turn; a few batches of RecBole, which takes hours for one."""
    task = recommendation.build(recommendation.Config(path=path, loss="one_negative"))
    shape = {"dim": 64, "layers": 2, "heads": 1, "dropout": 0.2}
    regard_model = sasrec.build(sasrec.Config(ffn_dim=64, **shape), task.spec).train()
    plain = PlainSASRec(task.spec.num_items, longest=task.config.max_history, **shape).train()
    work = {"regard": lambda: _our_epoch(task, regard_model), "plain PyTorch": lambda: _plain_epoch(task, plain)}
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(ROUNDS):
        for name, epoch in work.items():
            started_at = time.perf_counter()
            epoch()
            seconds[name].append(time.perf_counter() - started_at)
    count = sum(len(window.rows) - (not window.starts_history) for window in task.histories.windows)
    speeds = {name: [count / duration for duration in durations] for name, durations in seconds.items()}
    if recbole is not None:
        speeds["RecBole"] = [_recbole(task, recbole) for _ in range(ROUNDS)]
    results = {name: {"median": statistics.median(s), "range": [min(s), max(s)]} for name, s in speeds.items()}
    print(results)
    keep("training", results)


def _recbole(task: Any, python: Path) -> float:
    """Return choices per second of RecBole's SASRec on the same ratings, in a separate process."""
    events, peer = task.data.events, Path(__file__).parent / "systems" / "recbole_peer.py"
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as table:
        rows = zip(events.users.tolist(), events.items.tolist(), events.times.tolist(), strict=True)
        table.writelines(f"{user}\t{item}\t{when}\n" for user, item, when in rows)
        table.flush()
        words = [str(python), "-W", "ignore", str(peer), table.name, str(BATCHES)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1])["per_second"])


def _our_epoch(task: Any, model: Any) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for examples in task.epoch_batches(0, 1):
        loss = task.loss(model, task.collate(examples))
        optimizer.zero_grad(set_to_none=True)
        (loss.total / loss.count).backward()
        optimizer.step()


def _plain_epoch(task: Any, model: PlainSASRec) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    windows, longest = task.histories.windows, task.config.max_history
    order = np.random.default_rng(0).permutation(len(windows))
    for low in range(0, len(order), task.config.batch_size):
        batch = [task.data.events.items[windows[i].rows] + 1 for i in order[low : low + task.config.batch_size]]
        history, chosen = (np.zeros((len(batch), longest), np.int64) for _ in range(2))
        for row, items in enumerate(batch):
            if len(items) > 1:
                history[row, -(len(items) - 1) :], chosen[row, -(len(items) - 1) :] = items[:-1], items[1:]
        negatives = np.random.default_rng(low).integers(1, task.spec.num_items + 1, chosen.shape)
        loss = model.loss(*map(torch.from_numpy, (history, chosen, negatives)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    """Parse the command line."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("what", choices=("ranking", "baselines", "scoring", "million", "training"))
    words.add_argument("path", nargs="?", type=Path)
    words.add_argument("--data", type=Path, default=Path("../shared/data/ml-100k"))
    words.add_argument("--recbole", type=Path, help="an interpreter in which RecBole is installed")
    args = words.parse_args()
    if args.what in ("ranking", "scoring") and args.path is None:
        words.error(f"{args.what} needs a folder")
    work = {
        "ranking": lambda: ranking(args.path),
        "baselines": lambda: rank_baselines(args.data),
        "scoring": lambda: scoring(args.path),
        "million": million,
        "training": lambda: training(args.data, args.recbole),
    }
    work[args.what]()


if __name__ == "__main__":
    main()
