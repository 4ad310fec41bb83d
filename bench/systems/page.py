"""docs/speed.md from the figures: what was to be reached, how the cost grows, start-up, and a table of each work."""

from __future__ import annotations

import math
import statistics
import textwrap
from typing import Any

from systems import targets
from systems.targets import Works

UNITS = {
    "train": "target tokens/s",
    "decode": "sentences/s",
    "single": "sentences/s",
    "corpus": "sentences/s",
    "text": "texts/s",
}
MEANING = {
    "train": "Training steps; real target tokens are counted, not padding.",
    "decode": "Batches of 64 sentences, outputs of 15 tokens; regard in two processes of one thread each.",
    "single": "One sentence at a time, outputs of 15 tokens, after a second and a half of others.",
    "text": (
        "Texts in, texts out, tokenising in both: `regard translate` with engine auto, and CTranslate2 by hand. A job\n"
        "of 10,000 lines, batches of 64, or one text at a time. A patient CTranslate2 waits for its beam as long as\n"
        "regard lets it, and answers alike."
    ),
    "corpus": (
        "One job of 10,000 lines of token numbers, by each system's own batches, workers started and ended in it;\n"
        "outputs end by themselves. Reading the weights is not in it: that is in the table of start-up."
    ),
}
GROWTH = {  # what varies -> its unit, what is timed
    "length": ("tokens of source and output", "a batch of 16 sentences, one thread"),
    "batch": ("sentences", "a batch with outputs of 15 tokens, one thread"),
    "corpus": ("lines", "the whole job, two cores"),
}
HOW = """\
Every measurement is a process of its own; systems take turns (rounds: {count}). All get the same token numbers, model
shapes and batches, and each the settings it is fastest with of those in the tables (`2x1`: two workers of one thread).
Decoding is of random weights; CTranslate2 has the very weights of the regard model. Where outputs have
15 tokens, both ends of the length are set (all make 15 steps: the peers for 15 tokens, regard for 14 and the end
mark, whose probability it counts); in the corpus jobs the output's row for the end mark is fitted, so that
outputs end about where the references do (`bench/systems/endings.py`), in both systems alike.
"""


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def page(figures: dict[str, Any], notes: str) -> str:
    """The figures as Markdown, and below them the notes, which are written by hand."""
    works: Works = figures["works"]
    about = ", ".join(f"{name} {value}" for name, value in figures["machine"].items())
    parts = [
        "# Speed\n",
        "Written by `python bench/translation.py`; every number is in [speed.json](speed.json).\n",
        textwrap.fill(f"Measured on: {about}. {quiet(works)}", 120) + "\n",
        "## What was to be reached\n",
        "The ratio is regard's rate to that of the peer's fastest setting: the median of the rounds and their range.\n",
        *reached(works),
        "",
        "Like with like, each at its best setting in the same kind of numbers:\n",
        *table(["work", "against", "at least", "measured", "reached"], [targets.row(t, works) for t in targets.LIKE]),
        "",
        HOW.format(count=max((len(found) for systems in works.values() for found in systems.values()), default=0)),
        *growth(works),
        *startup(works),
        "## All measurements\n",
        "Ratios are regard's rate divided by the row's. MB is the most that the process and the largest of its",
        "children held.",
    ]
    for task, systems in works.items():
        if task.split("-")[0] in UNITS and any(systems.values()):
            parts += ["", *one_work(task, systems)]
    return "\n".join(parts) + "\n\n" + notes


def reached(works: Works) -> list[str]:
    """The table at the head."""
    rows = [targets.row(target, works) for target in targets.TARGETS]
    measured = [f"{kind} {slope:.2f}" for kind, slope in exponents(works, "regard").items()]
    shown = f"exponents: {', '.join(measured)}" if measured else "not measured"
    rows.append(["cost against length, batch and corpus size", "–", "linear where it should be", shown, "see below"])
    return table(["work", "against", "to reach", "measured", "reached"], rows)


def quiet(works: Works) -> str:
    """How much of the machine others used meanwhile."""
    shares = [one["foreign"] for systems in works.values() for found in systems.values() for one in found]
    if not shares:
        return ""
    return f"Others used {statistics.median(shares):.0%} of the cores (median; at most {max(shares):.0%})."


def one_work(task: str, systems: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Medians with their range, and the ratio of every regard to each."""
    kind = task.split("-", maxsplit=1)[0]
    systems = {name: found for name, found in systems.items() if found}
    ours = [name for name in systems if name.startswith("regard")]
    extra = ["tokens out", "batches"] if kind == "corpus" else []
    head = ["system", UNITS[kind], "range", *(f"{name} : it" for name in ours), "MB", *extra]
    rows = []
    for name, found in systems.items():
        rates = targets.rates(found)
        shown = [f"{statistics.median(targets.ratios(systems[one], found)):.2f}" for one in ours]
        memory = statistics.median(one["megabytes"] for one in found)
        cells = [name, f"{statistics.median(rates):,.1f}", f"{min(rates):,.1f} to {max(rates):,.1f}", *shown]
        rows.append([*cells, f"{memory:,.0f}", *_job(found, extra)])
    return [f"### {task}\n", f"{MEANING[kind]}\n", *table(head, rows)]


def _job(found: list[dict[str, Any]], extra: list[str]) -> list[str]:
    """The mean length of a job's outputs, and the kind of batches each round chose."""
    if not extra:
        return []
    kinds = sorted({one.get("batches", "its own") for one in found})
    return [f"{statistics.median(one['length'] for one in found):.1f}", " or ".join(kinds)]


def startup(works: Works) -> list[str]:
    """Seconds to the first translation."""
    found = {name: rounds for name, rounds in works.get("startup-tiny", {}).items() if rounds}
    if not found:
        return []
    rows = [[name, targets.spread([one["ready"] for one in rounds])] for name, rounds in found.items()]
    text = (
        "From the start of the process to the first translation by TINY, imports and reading of the weights included.\n"
    )
    return ["## Start-up\n", text, *table(["system", "seconds"], rows), ""]


def growth(works: Works) -> list[str]:
    """How the cost grows: the picture, and the exponents."""
    rows = []
    for kind, (unit, timed) in GROWTH.items():
        for name, found in works.get(f"cost-{kind}", {}).items():
            if found:
                points = found[-1]["points"]
                ends = f"{points[0][0]} to {points[-1][0]} {unit}"
                cells = [ends, timed, name, f"{exponent(points):.2f}", f"{last(points):.2f}"]
                rows.append(cells)
    if not rows:
        return []
    text = [
        "## How the cost grows\n",
        "![Cost against length, batch and corpus size](images/speed_cost.png)\n",
        "The exponent is the slope of a line through all points on logarithmic axes: 1 is proportional, less is a part",
        "that does not grow. The last column is the slope between the two largest sizes, where it weighs least.",
        "Attention over n tokens costs n² in all, which shows in the last column of the lengths once it weighs.\n",
    ]
    return [*text, *table(["from", "timed", "system", "exponent", "at the end"], rows), ""]


def exponents(works: Works, system: str) -> dict[str, float]:
    """By what varies, the exponent of a system's cost."""
    found = {kind: works.get(f"cost-{kind}", {}).get(system, []) for kind in GROWTH}
    return {kind: exponent(rounds[-1]["points"]) for kind, rounds in found.items() if rounds}


def exponent(points: list[list[float]]) -> float:
    """Text and seconds -> the slope of the line through their logarithms with the least squared error."""
    x, y = ([math.log(point[axis]) for point in points] for axis in (0, 1))
    return statistics.linear_regression(x, y).slope


def last(points: list[list[float]]) -> float:
    """The slope between the two largest sizes."""
    return exponent(points[-2:])
