"""Kill training at chosen file operations, resume it, and compare the result with an undisturbed run.

    python bench/reliability.py --kills 1000 --page docs/reliability.md

A small Transformer is trained on a few built-in sentences. A shim under the file functions
(bench/fault_injection.py) counts operations. At the n-th one the process is killed, the power fails (unflushed data is
lost, kept or torn), the disk is full, or it becomes read-only. Every operation of a run is chosen equally often; half
of the resumed processes die again. Another process loads the run repeatedly while it is trained. Processes are forked
from this one, which has imported torch but computed nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from fault_injection import FULL, KILL, POWER, READ_ONLY, Shim, lose_power
from page_sections import put

from regard.core.errors import RegardError
from regard.data.builtin import english_korean
from regard.training import log, tensor_files
from regard.training import recipe as recipes
from regard.training import train as runs
from regard.training.console import SilentConsole
from regard.training.load_run import load_run
from regard.training.recipe import Recipe
from regard.training.run_folder import RunFolder

SETTINGS = [
    "model=transformer", "model.layers=1", "model.dim=16", "model.ffn_dim=32", "model.heads=2", "model.dropout=0.2",
    "data.vocab_size=300", "data.max_batch_tokens=48", "data.max_length=16", "training.epochs=2",
    "training.files.save_every=2", "training.files.log_every=2", "training.evaluation.average_last=2",
    "training.schedule.warmup=10", "decoding=greedy",
]  # fmt: skip
SHARES = {KILL: 1.0, POWER: 0.5, FULL: 0.2, READ_ONLY: 0.2}  # of the number asked for
REFUSED, FAILED = 3, 4  # exit codes of a training: one line, or a traceback
AGAIN = 0.5  # of the resumed processes die, too
LONGEST = 600  # seconds a training of one second may take on a busy machine; what takes longer hangs
READERS = 10  # as many runs are read while they are written as there are kills, divided by this


def make_data(folder: Path) -> None:
    """Write a few short built-in sentences as files, so that a run takes less than half a second."""
    folder.mkdir()
    for split, count in (("train", 20), ("valid", 2), ("test", 2)):
        sentences = english_korean.generate(split, 20 * count, seed=1)
        pairs = sorted(sentences, key=lambda pair: len(pair.source) + len(pair.target))[:count]
        for code, lines in (("en", [p.source for p in pairs]), ("ko", [p.target for p in pairs])):
            (folder / f"{split}.{code}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def in_a_process(work: Callable[[], None], notes: Path) -> int:
    """Call a function in another process; return the exit code, -9 if the process was killed."""
    pid = os.fork()
    if not pid:
        code = 0
        signal.alarm(LONGEST)
        try:
            torch.set_num_threads(1)
            work()
        except RegardError as error:
            notes.write_text(str(error), encoding="utf-8")
            code = REFUSED
        except BaseException:
            notes.write_text(traceback.format_exc(), encoding="utf-8")
            code = FAILED
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def go_on(recipe: Recipe, path: Path) -> None:
    """Train, or resume the run if it exists."""
    if (path / "config.json").exists():
        runs.resume(path, console=SilentConsole())
    else:
        runs.train(recipe, path, console=SilentConsole())


def outcome(path: Path) -> tuple[bytes, bytes, int]:
    """Return the weights, the log and the number of incomplete files, which must not depend on interruptions."""
    folder = RunFolder(path)
    debris = [*path.rglob(".*"), *path.parent.glob(".*")]
    return folder.model.read_bytes(), folder.log.read_bytes(), len(debris)


class Trial:
    """A run in its own folder that is interrupted and then finished."""

    def __init__(self, recipe: Recipe, folder: Path, *, expected: tuple[bytes, bytes, int], operations: int) -> None:
        self.recipe, self.folder, self.expected, self.operations = recipe, folder, expected, operations
        self.root, self.notes, self.store = folder / "disk", folder / "notes.txt", folder / "store"
        self.path = self.root / "run"
        self.root.mkdir(parents=True)
        self.tally: Counter[str] = Counter()

    def strike(self, kind: str, at: int, rng: random.Random) -> bool:
        """Interrupt a process at an operation; return False if it ended before."""
        self.store.mkdir()
        store = self.store if kind == POWER else None

        def work() -> None:
            Shim(self.root, at=at, then=kind, store=store).install()
            go_on(self.recipe, self.path)

        code = in_a_process(work, self.notes)
        if code == -9 and kind == POWER:
            self.tally["lost"] += lose_power(self.root, self.store, rng)
        shutil.rmtree(self.store)
        struck = code == (-9 if kind in (KILL, POWER) else REFUSED)
        self.tally[kind] += struck
        if code and not struck:
            raise Broken(f"{kind} at operation {at}: {self._message(code)}")
        if struck:
            self.tally["half-written"] += any(self.root.rglob(".*.part"))
        return struck

    def finish(self, what: str) -> None:
        """Finish the run, and compare it with the uninterrupted one."""
        code = in_a_process(lambda: go_on(self.recipe, self.path), self.notes)
        if code:
            raise Broken(f"{what}: it could not go on: {self._message(code)}")
        if outcome(self.path) != self.expected:
            raise Broken(f"{what}: weights, log or what is left behind differ")

    def _message(self, code: int) -> str:
        """Return the error message of a process."""
        if code == -signal.SIGALRM:
            return f"it did not end within {LONGEST} seconds"
        return self.notes.read_text(encoding="utf-8") if code in (REFUSED, FAILED) else f"it ended with {code}"


class Broken(Exception):
    """A broken guarantee."""


def survive(recipe: Recipe, work: Path, jobs: list[tuple[str, int, int]], **settings: object) -> dict[str, int]:
    """Run all trials of one worker."""
    tally: Counter[str] = Counter()
    for index, (kind, at, seed) in enumerate(jobs):
        rng = random.Random(seed)
        trial = Trial(recipe, work / f"{index}", **settings)
        where = f"{kind} at operation {at} (seed {seed})"
        try:
            struck = trial.strike(kind, at, rng)
            if struck and rng.random() < AGAIN:
                again = rng.randint(1, trial.operations // 2)
                where += f", again at {again}"
                trial.tally["twice"] += trial.strike(kind, again, rng)
            trial.finish(where)
            trial.tally["same"] += 1
        except Broken as error:
            trial.tally["broken"] += 1
            print("BROKEN", where, error, flush=True)
        trial.tally["runs"] += 1
        tally += trial.tally
        shutil.rmtree(trial.folder)
        if index % 20 == 19:
            print(f"{os.getpid()}: {index + 1} of {len(jobs)} runs", dict(tally), flush=True)
    return dict(tally)


def read_while_writing(recipe: Recipe, work: Path, rounds: int) -> dict[str, int]:
    """Load a run repeatedly while it is trained: it is complete, or has no weights yet."""
    tally: Counter[str] = Counter()
    for index in range(rounds):
        path = work / f"read-{index}" / "run"
        child = os.fork()
        if not child:
            torch.set_num_threads(1)
            go_on(recipe, path)
            os._exit(0)
        while not os.waitpid(child, os.WNOHANG)[0]:
            if not (path / "model.safetensors").exists():
                continue
            try:
                load_run(path)
                tensor_files.read_metadata(path / "model.safetensors")
                tally["loadings while it was written"] += 1
                log.read_rows(path / "log.jsonl")
            except RegardError as error:
                if "a line is not JSON" not in str(error):  # the row that is being appended
                    tally["broken"] += 1
                    print("BROKEN while reading:", error, flush=True)
        shutil.rmtree(path.parent)
    return dict(tally)


def plan(kills: int, operations: int, seed: int) -> list[tuple[str, int, int]]:
    """Return kind, operation and seed of every trial; operations are spread evenly over the run."""
    rng = random.Random(seed)
    jobs = []
    for kind, share in SHARES.items():
        count = max(1, round(kills * share / (1 + AGAIN / 2 if kind in (KILL, POWER) else 1)))
        jobs += [(kind, 1 + (index * operations) // count, rng.randrange(2**30)) for index in range(count)]
    rng.shuffle(jobs)
    return jobs


def run_all(kills: int, work: Path, *, seed: int, workers: int) -> tuple[Counter[str], int]:
    """Run all trials; return the counts, and the number of operations of a run."""
    make_data(work / "data")
    os.environ["REGARD_CACHE"] = str(work / "cache")
    recipe = recipes.read("translation", settings=[*SETTINGS, f"data.path={work / 'data'}"])
    alone = work / "alone" / "run"
    alone.parent.mkdir()
    count = work / "count"

    def counted() -> None:
        shim = Shim(alone.parent)
        shim.install()
        go_on(recipe, alone)
        count.write_text(str(shim.count))

    if in_a_process(counted, work / "notes"):
        raise SystemExit((work / "notes").read_text())
    operations, expected = int(count.read_text()), outcome(alone)
    jobs = plan(kills, operations, seed)
    children = {}
    for worker in range(workers):
        folder = work / f"worker-{worker}"
        folder.mkdir()
        pid = os.fork()
        if not pid:
            tally = survive(recipe, folder, jobs[worker::workers], expected=expected, operations=operations)
            (folder / "tally.json").write_text(json.dumps(tally))
            os._exit(0)
        children[pid] = folder
    total: Counter[str] = Counter(read_while_writing(recipe, work, max(1, kills // READERS)))
    for pid, folder in children.items():
        if os.waitpid(pid, 0)[1]:
            raise SystemExit("a worker of the harness itself failed")
        total += Counter(json.loads((folder / "tally.json").read_text()))
    return total, operations


def describe(tally: Counter[str], operations: int, seconds: tuple[float, float]) -> str:
    """Format the result as text."""
    rows = "\n".join(f"| {kind} | {tally[kind]} |" for kind in SHARES)
    reads = tally["loadings while it was written"]
    clock, processor = (f"{part / 60:.0f}" for part in seconds)
    return f"""{tally["runs"]} runs of {operations} file operations each; {processor} minutes of CPU time,
{clock} minutes of wall time. Events at the chosen operations:

| event | count |
|---|---|
{rows}
| the run was loaded while it was being written | {reads} |

{tally["twice"]} processes were interrupted again after they had resumed. {tally["half-written"]} times a half-written
file was left, and {tally["lost"]} times a power loss discarded unflushed data. Guarantees broken: {tally["broken"]}.
Runs whose final weights and log equal those of the uninterrupted run: **{tally["same"]} of {tally["runs"]}**.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes side by side")
    parser.add_argument("--work", type=Path, default=Path("/dev/shm"), help="where the runs are (default: in memory)")
    parser.add_argument("--page", type=Path, help="write the result between the markers of this page")
    args = parser.parse_args()
    began = time.monotonic()
    folder = args.work if args.work.is_dir() else None
    with tempfile.TemporaryDirectory(dir=folder) as work:
        tally, operations = run_all(args.kills, Path(work).resolve(), seed=args.seed, workers=args.workers)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor = sum(part.ru_utime + part.ru_stime for part in used)
    text = describe(tally, operations, (time.monotonic() - began, processor))
    print(text)
    if args.page:
        put(args.page, "kills", text)
    if tally["broken"] or tally["same"] < tally["runs"]:
        raise SystemExit("a run that was struck ended otherwise than the one left alone")


if __name__ == "__main__":
    main()
