"""Attacks on everything but training and single requests: archives, kills of other commands, signals, threads, names.

    python bench/attacks.py --page docs/reliability.md

Each case is a function in bench/attack_cases/. It tries one kind of attack a number of times and returns the number of
trials and the broken guarantees. --only NAME runs one case; the page keeps the rows of the others.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from attack_cases import archives, commands, processes, servers
from attack_cases.outcome import Outcome
from page_sections import put, section, today

CASES: dict[str, Callable[[Path], Outcome]] = {
    "archives: paths out of them, links, bombs": archives.hostile_archives,
    "kills in export, average, evaluate, import": commands.killed_commands,
    "power loss in export, average, evaluate, import": commands.commands_without_power,
    "kills while caches are written": commands.killed_caches,
    "kills in an experiment": commands.killed_experiment,
    "two trainings in one folder": processes.two_trainings,
    "data that changes before a run is resumed": processes.changed_data,
    "`load` and `record` in threads": processes.threads,
    "fork after `load`": processes.fork_after_load,
    "Ctrl-C in `predict`, then `predict` again": processes.interrupted_predictions,
    "network calls of commands, by strace": processes.network_calls,
    "hashes of the pinned versions": processes.pinned_hashes,
    "SIGTERM under load": servers.terminated_under_load,
    "one client against many": servers.one_client_against_many,
    "labels and names in a browser": servers.names_in_a_browser,
}


def attempt(case: Callable[[Path], Outcome]) -> Outcome:
    """Run a case in a folder of its own; an exception of the case is a broken promise."""
    with tempfile.TemporaryDirectory() as work:
        os.environ["REGARD_CACHE"] = str(Path(work, "cache"))
        try:
            return case(Path(work).resolve())
        except Exception:
            return Outcome(1, [traceback.format_exc()])


def merged_table(text: str, rows: dict[str, str]) -> str:
    """Table of the page and new rows by case -> the table, in the order of the cases; rows of no case are dropped."""
    old = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if line.startswith("| ")}
    lines = [(old | rows)[name] for name in CASES if name in old | rows]
    return "\n".join(["| attack | trials | broken | measured | promise |", "|---|---|---|---|---|", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name contains one of these words")
    parser.add_argument("--page", type=Path, help="write the table between the markers of this page")
    args = parser.parse_args()
    rows, broken = dict[str, str](), 0
    for name, case in CASES.items():
        if args.only and not any(word in name for word in args.only):
            continue
        started_at = time.monotonic()
        outcome = attempt(case)
        broken += len(outcome.broken)
        rows[name] = f"| {name} | {outcome.trials:,} | {len(outcome.broken)} | {today()} | {outcome.note} |"
        print(rows[name], f"{time.monotonic() - started_at:.0f} s", *outcome.broken, sep="\n  ", flush=True)
    if args.page:
        table = merged_table(section(args.page, "attacks"), rows)
        put(args.page, "attacks", table, command="python bench/attacks.py", has_dates=True)
    if broken:
        raise SystemExit(f"{broken} promises broken")


if __name__ == "__main__":
    main()
