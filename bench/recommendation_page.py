"""The part of docs/results.md on recommendation, from docs/recommendation.json (bench/recommendation.py)."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parents[1] / "docs" / "recommendation.json"
COLUMNS = ("hr@10", "ndcg@10", "mrr", "coverage@10", "novelty@10")
OPINIONS = ("auc", "log_loss", "rmse")
BASELINES = ("popularity", "item_knn", "factorisation", "ease", "sequence_knn")
SETS = ("precision@10", "recall@10", "ndcg@10", "coverage@10", "novelty@10")


def cell(values: list[float]) -> str:
    """Format the mean, and the range if there are several values."""
    if not values:
        return "–"
    mean = f"{statistics.mean(values):.4f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.4f}–{max(values):.4f})"


def lines(head: list[str], rows: list[list[str]]) -> str:
    """Format a Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]) + "\n"


def ranking(results: dict[str, list[dict[str, Any]]], baselines: dict[str, float]) -> str:
    """Return one row per recipe or baseline, with the columns that have at least one value."""
    recipe_rows = [{name: [run[name] for run in runs if name in run] for name in COLUMNS} for runs in results.values()]
    baseline_rows = [
        {name: [baselines[f"{who}_{name}"]] for name in COLUMNS if f"{who}_{name}" in baselines} for who in BASELINES
    ]
    columns = [name for name in COLUMNS if any(row.get(name) for row in [*recipe_rows, *baseline_rows])]
    rows = [
        [f"[{recipe}](../recipes/{recipe}.toml)", str(len(runs)), f"{statistics.mean(r['minutes'] for r in runs):.1f}"]
        + [cell(row.get(name, [])) for name in columns]
        for (recipe, runs), row in zip(results.items(), recipe_rows, strict=True)
    ]
    rows += [
        [who.replace("_", "-"), "1", "–", *(cell(row.get(name, [])) for name in columns)]
        for who, row in zip(BASELINES, baseline_rows, strict=True)
        if row
    ]
    return lines(["recipe or baseline", "seeds", "minutes", *columns], rows)


def _asks_all(runs: list[dict[str, Any]]) -> bool:
    """Return True if the case requests the lists of all users and items."""
    return any("hr@10" in run and "new_users_hr@10" not in run for run in runs)


def opinions(results: dict[str, list[dict[str, Any]]]) -> str:
    """Return the recipes that predict ratings, each followed by matrix factorization of the same ratings."""
    rows = [
        [f"[{recipe}](../recipes/{recipe}.toml)" if not who else who.strip("_"), f"{minutes:.1f}" if not who else "–"]
        + [cell([run[who + name] for run in runs if who + name in run]) for name in OPINIONS]
        for recipe, runs in results.items()
        if any(name in run for run in runs for name in OPINIONS)
        for minutes in (statistics.mean(run["minutes"] for run in runs),)
        for who in ("", "factorisation_")
    ]
    return lines(["recipe or baseline", "minutes", *OPINIONS], rows) if rows else ""


def sets(results: dict[str, list[dict[str, Any]]]) -> str:
    """Return the recipes that predict any other item of a user, each followed by baselines on the same held-out
    ratings.
    """
    rows = [
        [who if who else f"[{recipe}](../recipes/{recipe}.toml)", f"{minutes:.1f}" if not who else "–"]
        + [cell([run[prefix + name] for run in runs if prefix + name in run]) for name in SETS]
        for recipe, runs in results.items()
        if any("precision@10" in run for run in runs)
        for minutes in (statistics.mean(run["minutes"] for run in runs),)
        for who in ("", *BASELINES)
        for prefix in (f"{who}_" if who else "",)
        if any(prefix + "precision@10" in run for run in runs)
    ]
    return lines(["recipe or baseline", "minutes", *SETS], rows) if rows else ""


def groups(results: dict[str, list[dict[str, Any]]], prefix: str) -> str:
    """Return further scores of runs: new users and items, sampled metrics."""
    rows = []
    for recipe, runs in results.items():
        names = sorted({name for run in runs for name in run if name.startswith(prefix)})
        rows += [[recipe, name.replace("_", " "), cell([run[name] for run in runs if name in run])] for name in names]
    return lines(["recipe", "score", "value"], rows) if rows else ""


def sections(results: dict[str, Any]) -> list[str]:
    """Return all sections with figures."""
    parts: list[str] = []
    if "ranking" in results:
        lists = {recipe: runs for recipe, runs in results["ranking"].items() if _asks_all(runs)}
        thought = opinions(results["ranking"])
        set_table = sets(results["ranking"])
        parts += [HEAD, ranking(lists, results.get("baselines", {})), *([OTHERS, set_table] if set_table else [])]
        parts += [LIKED, thought] if thought else []
        for prefix, title in (("new_", NEW), ("with_seen_", WITH_SEEN), ("sampled_", SAMPLED)):
            table = groups(results["ranking"], prefix)
            parts += [title, table] if table else []
    if "scoring" in results:
        record = results["scoring"]
        parts.append(f"Scoring {record['items']:,} items for {record['users']:,} users: {record['seconds']:.2f} s.\n")
    if "million" in results:
        record = results["million"]
        exact, approximate = record["exact"], record["approximate"]
        parts.append(
            f"{record['items']:,} items × {record['users']:,} users, {record['threads']} threads: exact search in "
            f"chunks processes {exact:.0f} users/s with {record['megabytes']:.0f} MB above the data. An index of "
            f"usearch (built in {record['index_seconds']:.0f} s) processes {approximate:.0f} users/s, "
            f"{approximate / exact:.1f} times as fast, with {record['recall']:.1%} of the exact top ten.\n"
        )
    if "training" in results:
        rows = [
            [name, f"{record['median']:,.0f}", f"{record['range'][0]:,.0f}–{record['range'][1]:,.0f}"]
            for name, record in results["training"].items()
        ]
        parts += [TRAINING, lines(["SASRec, ML-100K", "choices/s", "range"], rows)]
    return parts


HEAD = """## Recommendation

MovieLens 100K (90,570 ratings; the official ub.test is held out), by `python bench/recommendation.py ranking RUNS`.
Next item: each user's last rating is the test case, the one before it is for validation. All 1,682 films are ranked
except those that the user has already rated. Baselines use the same ratings; their settings are chosen on the
validation cases. [Protocol](recommendation.md).
"""
OTHERS = """### Any other film of a user

Ratings held out at random (8:1:1). The list of a user is compared with all of the user's held-out films. The order of
the ratings is hidden (`data.objective=any`).
"""
LIKED = """### Liked or not, and ratings as numbers

Liked (4, 5) or not (1, 2) in a random split 8:1:1, the protocol of AutoInt, and each user's last rating as a number.
The baseline is a truncated SVD of the same ratings with biases; its rank is chosen on the validation ratings.
"""
NEW = """### Users and films held out entirely

A tenth of the users and a tenth of the films are held out, in three draws. New users: the last film is predicted from
the history alone. New films: the chosen new film is predicted from its profile alone, for users who choose one.
Popularity cannot rank new films.
"""
WITH_SEEN = """### The same with films that the user has rated

The protocol of RecBole for sequential models: such films stay in the ranking, although no user rates a film twice.
"""
SAMPLED = """### The same by sampled metrics

Ranking among 100 uniformly sampled films, as in many papers. The values are several times as high, and not comparable
with the others.
"""
TRAINING = """### Speed of training

A choice is an item that the model is trained to predict. RecBole creates one example with a complete history for each
choice. regard and the plain loop predict all items of a history in one pass.
"""
