"""Fuzzing with corrupted files, texts and requests: each case must give a result or a one-line error message.

    python bench/fuzz.py --cases 20000 --page docs/reliability.md

Run folders, texts, tables, scores, images and requests to the server are created valid, corrupted at random with a
fixed seed, and used as a user would. A case is broken if it raises anything but a RegardError of one line, takes 10 CPU
seconds or does not end, exceeds the memory limit, writes a file outside its folder, uses the network, starts a process
or imports a module named in a file. Processes are forked from one that has imported everything, so that a case takes
milliseconds. `--case images/17` repeats one case and shows its result.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, TextIO

import torch
from fuzz_cases import CANARY
from fuzz_cases import Kind as KindLike
from fuzz_guard import SIGNALS, Guard
from page_sections import put

from regard.core.errors import RegardError

SHARES = {  # of a hundred cases
    "runs": 22, "texts": 18, "tables": 15, "scores": 13, "images": 14, "requests": 8, "service": 10,
}  # fmt: skip
NAMES = {
    "runs": "run folders", "texts": "texts as inputs", "tables": "tables and text files", "scores": "scores",
    "images": "images", "requests": "requests to the page's server", "service": "requests to verbs",
}  # fmt: skip
ANSWERED, REFUSED, BROKEN = "answered", "refused", "broken"
LONGEST = 2000  # maximum characters of an error message
AT_ONCE = 400  # cases of a process, which then ends: what it leaked would count against the bound of its memory


class Job(NamedTuple):
    """A case by kind and index; it can be repeated."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind}/{self.number}"


class Result(NamedTuple):
    """The outcome of a case."""

    job: Job
    outcome: str
    seconds: float
    what: str  # was done
    why: str = ""  # it is broken


def plan(cases: int, kinds: list[str]) -> list[Job]:
    """Return all cases, with the kinds mixed evenly."""
    total = sum(SHARES[kind] for kind in kinds)
    counts = {kind: max(1, round(cases * SHARES[kind] / total)) for kind in kinds}
    jobs = [(index / counts[kind], Job(kind, index)) for kind in kinds for index in range(counts[kind])]
    return [job for _, job in sorted(jobs)]


class Range:
    """Folders and samples of the cases: a folder for the case, and one outside of it that must not change."""

    def __init__(self, work: Path, kinds: list[str], seed: int) -> None:
        self.work, self.seed = work, seed
        os.environ["REGARD_CACHE"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(work / "cache")
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        (work / "modules").mkdir()
        (work / "modules" / f"{CANARY}.py").write_text("Config = Score = object\n")
        sys.path.insert(0, str(work / "modules"))
        self.kinds: dict[str, KindLike] = {name: import_module(f"fuzz_cases.{name}").Kind() for name in kinds}
        import_module("sklearn.manifold")  # seconds, which no case is to pay for
        for kind in self.kinds.values():
            kind.prepare(work)

    def attempt(self, job: Job, guard: Guard, work: Path, report: Callable[[object], None]) -> Result:
        """Run one case in this process; it is reported before it is tried."""
        rng = random.Random(f"{self.seed} {job}")
        outside, folder = work / "outside", work / "case"
        for path in (outside, folder):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        (outside / "file").write_text("of the user")
        case = self.kinds[job.kind].make(rng, folder)
        report([*job, case.what])
        outcome, why = ANSWERED, ""
        try:
            with guard:
                case.use()
        except RegardError as error:
            outcome, why = REFUSED, _fault(str(error))
        except BaseException as error:
            why = "".join(traceback.format_exception(error)[-6:])
        if [path.name for path in outside.iterdir()] != ["file"] or (outside / "file").read_text() != "of the user":
            why = "changed a file outside of its folder"
        why = why or "; ".join(guard.broken)
        return Result(job, BROKEN if why else outcome, guard.used, case.what, why)

    def work_on(self, jobs: list[Job], pipe: int, folder: Path) -> None:
        """Run cases one after the other; each case and its outcome are written to a pipe."""
        guard = Guard([folder, self.work / "cache"])
        with os.fdopen(pipe, "w", encoding="utf-8") as stream:
            report = partial(_report, stream)
            for job in jobs:
                report(self.attempt(job, guard, folder, report))


def _report(stream: TextIO, values: object) -> None:
    print(json.dumps(values), file=stream, flush=True)


def _fault(line: str) -> str:
    """Return the problem of an error message, or an empty text."""
    if not line.strip() or len(line.splitlines()) != 1:
        return f"not one line: {line[:300]!r}"
    return f"a line of {len(line)} characters: {line[:200]!r}" if len(line) > LONGEST else ""


def in_processes(ground: Range, jobs: list[Job], workers: int) -> list[Result]:
    """Run all cases in several processes; a process that dies is replaced, and its case is broken."""
    remaining = [jobs[worker::workers] for worker in range(workers)]
    running: dict[int, tuple[int, int, Path]] = {}  # process -> worker, end of its pipe, folder
    results: list[Result] = []
    while any(remaining) or running:
        for worker in set(range(workers)) - {worker for worker, _, _ in running.values()}:
            if remaining[worker]:
                pid, read_end, folder = _fork(ground, remaining[worker][:AT_ONCE], worker)
                running[pid] = worker, read_end, folder
        pid, (worker, read_end, folder) = next(iter(running.items()))
        finished, unfinished = _listen(read_end)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        del running[pid]
        if unfinished is not None:
            finished.append(unfinished._replace(why=_end(status)))
        elif status or not finished:
            raise SystemExit(f"a process of the harness itself failed ({status})")
        remaining[worker] = remaining[worker][len(finished) :]
        results += finished
        for result in finished:
            if result.outcome == BROKEN:
                print(ascii(f"BROKEN {result.job} {result.what}")[1:-1], f"\n    {result.why.strip()}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    return results


def _fork(ground: Range, jobs: list[Job], worker: int) -> tuple[int, int, Path]:
    read_end, write_end = os.pipe()
    folder = ground.work / f"worker-{worker}"
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(read_end)
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            sys.dont_write_bytecode = True  # the caches of late imports are outside of the folder of a case
            ground.work_on(jobs, write_end, folder)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write_end)
    return pid, read_end, folder


def _listen(pipe: int) -> tuple[list[Result], Result | None]:
    """Return the results that a process reports until it ends, and the case that did not end."""
    results: list[Result] = []
    unfinished: Result | None = None
    with os.fdopen(pipe, encoding="utf-8") as lines:
        for line in lines:
            values = json.loads(line)
            if len(values) == len(Result._fields):
                results.append(Result(Job(*values[0]), *values[1:]))
                unfinished = None
            else:
                kind, index, what = values
                unfinished = Result(Job(kind, index), BROKEN, 0.0, what)
    return results, unfinished


def _end(status: int) -> str:
    if status >= 0:
        return f"the process ended by itself, with {status}"
    signal_number = signal.Signals(-status)
    return SIGNALS.get(signal_number, f"the process was ended by {signal_number.name}")


def describe(results: list[Result], seconds: float, seed: int) -> str:
    """Format the table."""
    rows = []
    for kind in SHARES:
        of_kind = [result for result in results if result.job.kind == kind]
        if of_kind:
            counts = Counter(result.outcome for result in of_kind)
            slowest = max(0.0, *(result.seconds for result in of_kind))  # two clocks may differ by a tick
            cells = (len(of_kind), *(counts[outcome] for outcome in (ANSWERED, REFUSED, BROKEN)))
            rows.append(f"| {NAMES[kind]} | {' | '.join(f'{cell:,}' for cell in cells)} | {slowest:.1f} |")
    used = sum(result.seconds for result in results)
    table = "\n".join(rows)
    return f"""{len(results):,} cases with seed {seed}; {used / 60:.0f} minutes of CPU time,
{seconds / 60:.0f} minutes of wall time.

| corrupted input | cases | answered | refused in one line | broken | slowest, CPU s |
|---|---|---|---|---|---|
{table}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    parser.add_argument("--only", choices=list(SHARES), action="append", help="only these kinds")
    parser.add_argument("--case", help="repeat one case, as kind/index")
    parser.add_argument("--page", type=Path, help="write the table between the markers of this page")
    args = parser.parse_args()
    kinds = [args.case.partition("/")[0]] if args.case else args.only or list(SHARES)
    began = time.monotonic()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as work:
        ground = Range(Path(work).resolve(), kinds, args.seed)
        if args.case:
            job = Job(kinds[0], int(args.case.partition("/")[2]))
            results = in_processes(ground, [job], 1)
            print(*results, sep="\n")
        else:
            results = in_processes(ground, plan(args.cases, kinds), args.workers)
    text = describe(results, time.monotonic() - began, args.seed)
    print(text)
    if args.page:
        put(args.page, "hostile", text)
    if any(result.outcome == BROKEN for result in results):
        raise SystemExit("some cases are broken: neither a result nor a one-line error message")


if __name__ == "__main__":
    main()
