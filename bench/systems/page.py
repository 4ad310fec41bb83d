"""Write docs/speed.md from the figures: targets, growth of the cost, start-up, and a table for each work."""

from __future__ import annotations

import importlib
import math
import statistics
import textwrap
from typing import Any

import comparisons

from systems import targets
from systems.targets import Works

UNITS = {
    "train": "target tokens/s",
    "decode": "sentences/s",
    "single": "sentences/s",
    "corpus": "sentences/s",
    "text": "texts/s",
    "clients": "inputs/s",
    **{name: comparisons.find(name).unit for name in comparisons.MODULES},
}
MEANING = {
    "train": "Training steps; real target tokens are counted, not padding.",
    "decode": "Batches of 64 sentences, outputs of 15 tokens; regard uses two processes of one thread each.",
    "clients": (
        "One server process with 200 clients on the same machine, and the same engine on a corpus without a server."
    ),
    "single": "One sentence at a time, outputs of 15 tokens, after a warm-up of 1.5 seconds.",
    "text": (
        "Texts to texts, tokenization included: `regard translate` with engine auto, and CTranslate2 called directly.\n"
        "A job of 10,000 lines, batches of 64, or one text at a time. The patient CTranslate2 has regard's patience,\n"
        "and gives the same output."
    ),
    "corpus": (
        "One job of 10,000 lines of token ids, with each system's own batching. Starting and stopping the workers is\n"
        "included, outputs end by themselves. Loading the weights is not included; see the table of start-up times."
    ),
}
GROWTH = {  # varied size -> its unit, the timed work
    "length": ("tokens of source and output", "a batch of 16 sentences, one thread"),
    "batch": ("sentences", "a batch with outputs of 15 tokens, one thread"),
    "corpus": ("lines", "the complete job, two cores"),
}
HOW = """\
Every measurement runs in a separate process, and systems alternate (rounds: {count}). All systems get the same token
ids, model shapes and batches. Each uses its fastest setting of those in the tables (`2x1`: two workers of one thread).
Decoding uses random weights; CTranslate2 has the same weights as the regard model. For outputs of 15 tokens, minimum
and maximum length are fixed. All systems make 15 steps: the others for 15 tokens, regard for 14 and EOS, whose
probability it counts. In the corpus jobs the output weights of EOS are fitted in both systems, so that outputs end
about where the references do (`bench/systems/length_matched_model.py`).
"""


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Format a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def page(figures: dict[str, Any], notes: str) -> str:
    """Format the figures as Markdown, followed by the handwritten notes."""
    works: Works = figures["works"]
    about = ", ".join(f"{name} {value}" for name, value in figures["machine"].items())
    parts = [
        "# Speed\n",
        "Written by `python bench/all.py`; all values are in [speed.json](speed.json).\n",
        textwrap.fill(f"Measured {dates(works)} on: {about}. {quiet(works)}", 120) + "\n",
        "## Targets\n",
        "The ratio is regard's rate divided by the peer's at its fastest setting: median and range of the rounds.\n",
        *reached(works),
        "",
        "With the same number format on both sides, each system at its best setting:\n",
        *table(["work", "compared with", "target", "measured", "met"], [targets.row(t, works) for t in targets.LIKE]),
        "",
        HOW.format(count=max((len(rounds) for systems in works.values() for rounds in systems.values()), default=0)),
        *growth(works),
        *startup(works),
        "## All measurements\n",
        "Ratios are regard's rate divided by the rate of the row. MB is the peak memory of the process plus that of",
        "its largest child.",
    ]
    for task, systems in works.items():
        if task.split("-")[0] in UNITS and any(systems.values()) and "rate" in next(filter(None, systems.values()))[0]:
            parts += ["", *one_work(task, systems)]
    return "\n".join([*parts, *memory(works)]) + "\n\n" + notes


def reached(works: Works) -> list[str]:
    """Return the table of targets."""
    rows = [targets.row(target, works) for target in targets.TARGETS]
    rows += [[*cells[:3], cells[3], ""] for cells in targets.OPEN]
    measured = [f"{kind} {slope:.2f}" for kind, slope in exponents(works, "regard").items()]
    summary = f"exponents: {', '.join(measured)}" if measured else "not measured"
    rows.append(["cost against length, batch and corpus size", "–", "linear where expected", summary, "see below"])
    return table(["work", "compared with", "target", "measured", "met"], rows)


def dates(works: Works) -> str:
    """Return the day of the measurements, or the first and the last one."""
    days = sorted(
        {r["date"] for systems in works.values() for rounds in systems.values() for r in rounds if "date" in r}
    )
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "never"


def quiet(works: Works) -> str:
    """Describe the load of other processes during the measurements."""
    shares = [record["foreign"] for systems in works.values() for rounds in systems.values() for record in rounds]
    if not shares:
        return ""
    return f"Other processes used {statistics.median(shares):.0%} of the cores (median; at most {max(shares):.0%})."


def one_work(task: str, systems: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the table of one work: medians, ranges, and the ratios of the regard systems to each system."""
    kind = task.split("-", maxsplit=1)[0]
    systems = {name: rounds for name, rounds in systems.items() if rounds}
    regard_systems = [name for name in systems if name.startswith("regard")]
    extra = ["tokens out", "batches"] if kind == "corpus" else []
    head = ["system", UNITS[kind], "range", *(f"{name} : system" for name in regard_systems), "MB", *extra]
    rows = []
    for name, rounds in systems.items():
        rates = targets.rates(rounds)
        summary = [f"{statistics.median(targets.ratios(systems[record], rounds)):.2f}" for record in regard_systems]
        memory = statistics.median(record["megabytes"] for record in rounds)
        cells = [name, f"{statistics.median(rates):,.1f}", f"{min(rates):,.1f} to {max(rates):,.1f}", *summary]
        rows.append([*cells, f"{memory:,.0f}", *_job(rounds, extra)])
    return [f"### {task}\n", f"{MEANING.get(kind) or described(task)}\n", *table(head, rows)]


def described(work: str) -> str:
    """Return the line about a comparison from the docstring of its module."""
    lines = iter((importlib.import_module(comparisons.MODULES[work]).__doc__ or "").splitlines())
    text = next(line for line in lines if line.split(maxsplit=1)[:1] == [work]).removeprefix(work).strip()
    for line in lines:
        if not line.startswith(" "):
            break
        text += f" {line.strip()}"
    return textwrap.fill(f"{text[0].upper()}{text[1:]}.", 120)


def memory(works: Works) -> list[str]:
    """Return the table of bytes, which are measured once."""
    systems = {name: rounds for name, rounds in works.get("memory", {}).items() if rounds}
    if not systems:
        return []
    rows = [[name, f"{rounds[0]['bytes']:,.0f}"] for name, rounds in systems.items()]
    return ["", "### memory\n", f"{described('memory')}\n", *table(["system", "bytes"], rows)]


def _job(rounds: list[dict[str, Any]], extra: list[str]) -> list[str]:
    """Return the mean length of a job's outputs, and the batch sizes chosen in the rounds."""
    if not extra:
        return []
    kinds = sorted({record.get("batches", "its own") for record in rounds})
    return [f"{statistics.median(record['length'] for record in rounds):.1f}", " or ".join(kinds)]


def startup(works: Works) -> list[str]:
    """Return the table of seconds to the first translation."""
    systems = {name: rounds for name, rounds in works.get("startup-tiny", {}).items() if rounds}
    if not systems:
        return []
    rows = [[name, targets.spread([record["ready"] for record in rounds])] for name, rounds in systems.items()]
    text = "From the start of the process to the first translation by TINY, with imports and loading of the weights.\n"
    return ["## Start-up\n", text, *table(["system", "seconds"], rows), ""]


def growth(works: Works) -> list[str]:
    """Return the section on the growth of the cost: the plot and the exponents."""
    rows = []
    for kind, (unit, timed) in GROWTH.items():
        for name, rounds in works.get(f"cost-{kind}", {}).items():
            if rounds:
                points = rounds[-1]["points"]
                ends = f"{points[0][0]} to {points[-1][0]} {unit}"
                cells = [ends, timed, name, f"{exponent(points):.2f}", f"{last(points):.2f}"]
                rows.append(cells)
    if not rows:
        return []
    text = [
        "## Growth of the cost\n",
        "![Cost against length, batch and corpus size](images/speed_cost.png)\n",
        "The exponent is the slope of a line through all points on logarithmic axes. 1 means proportional; less than 1",
        "means that a part of the cost is constant. The last column is the slope between the two largest sizes, where",
        "the constant part is smallest. Attention over n tokens costs n² in total, visible at long lengths.\n",
    ]
    return [*text, *table(["from", "timed", "system", "exponent", "at the end"], rows), ""]


def exponents(works: Works, system: str) -> dict[str, float]:
    """Return the exponents of a system's cost by the varied size."""
    curves = {kind: works.get(f"cost-{kind}", {}).get(system, []) for kind in GROWTH}
    return {kind: exponent(rounds[-1]["points"]) for kind, rounds in curves.items() if rounds}


def exponent(points: list[list[float]]) -> float:
    """Sizes and seconds -> the slope of the line through their logarithms with the least squared error."""
    x, y = ([math.log(point[axis]) for point in points] for axis in (0, 1))
    return statistics.linear_regression(x, y).slope


def last(points: list[list[float]]) -> float:
    """Return the slope between the two largest sizes."""
    return exponent(points[-2:])
