"""Speed of regard and its peers, measured in one run: training, decoding, single texts, generation, servers.

    pip install -c constraints.txt -e '.[ctranslate2,plots]' -r bench/requirements.txt
    python bench/all.py                                           # everything, on an idle machine with two cores
    python bench/all.py --only train-tiny --only single # parts, by a prefix of their names
    python bench/all.py --continue                                # only missing measurements; then write the page

Figures are written to docs/speed.json after every measurement, so that an interrupted run can continue with --continue.
docs/speed.md and docs/images/speed_cost.png are generated from them at the end. docs/speed_notes.md, written by hand,
is appended to the page. bench/systems/page.py describes the method.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import comparisons

from systems import page, plot, workload
from systems.targets import Works

ROOT = Path(__file__).parents[1]
SINGLE = ["regard", "PyTorch loop", "transformers"]
TRAIN = [name for peer in SINGLE for name in (peer, f"{peer} {'float32' if peer == 'regard' else 'bfloat16'}")]
WHOLE, TWO = "CTranslate2 float32 1x2", "CTranslate2 float32 2x1"
TWO_INT8, WHOLE_INT8 = "CTranslate2 int8 2x1", "CTranslate2 int8 1x2"
ONE_THREAD, ONE_THREAD_INT8 = "CTranslate2 float32 1x1", "CTranslate2 int8 1x1"
PEERS = ("torch", "transformers", "ctranslate2", "timm", "gensim")
INT8, AUTO = "regard int8", "regard auto"
WORKS = {
    "train-tiny": TRAIN,
    "train-base": TRAIN,
    "train-bahdanau": TRAIN[:4],
    "decode-tiny-greedy": ["regard", INT8, *SINGLE[1:], WHOLE, TWO, TWO_INT8],
    "decode-tiny-beam": ["regard", INT8, "transformers", WHOLE, TWO, TWO_INT8],
    "decode-base-greedy": ["regard", INT8, "transformers", TWO, WHOLE_INT8, TWO_INT8],
    "decode-base-beam": ["regard", INT8, "transformers", TWO, WHOLE_INT8, TWO_INT8],
    "single-tiny-greedy": [*SINGLE, ONE_THREAD, WHOLE, ONE_THREAD_INT8],
    "single-tiny-beam": ["regard", "transformers", ONE_THREAD, ONE_THREAD_INT8],
    "single-base-greedy": ["regard", INT8, "transformers", ONE_THREAD, WHOLE, ONE_THREAD_INT8],
    "corpus-tiny-greedy": ["regard", INT8, TWO, TWO_INT8],
    "corpus-tiny-beam": ["regard", INT8, TWO, TWO_INT8],
    "text-corpus-greedy": [AUTO, TWO, WHOLE],
    "text-corpus-beam": [AUTO, TWO, f"patient {TWO}"],
    "text-batch-greedy": [AUTO, TWO, WHOLE],
    "text-single-greedy": [AUTO, ONE_THREAD, WHOLE],
    "startup-tiny": ["regard", AUTO, "transformers", ONE_THREAD],
    **{name: list(comparisons.find(name).names) for name in comparisons.MODULES},
    "clients-translation": ["regard", "own corpus"],
    "clients-language": ["regard", "own corpus"],
    "cost-length": ["regard", ONE_THREAD],
    "cost-batch": ["regard", ONE_THREAD],
    "cost-corpus": ["regard", TWO],
}
ONCE = ("cost-", "memory")  # curves of many points, and bytes, measured in the first round only


def run(task: str, system: str, *, seconds: float, folder: Path) -> dict[str, Any]:
    """Run one measurement in a new process; if it fails, print its output and return an empty dict."""
    alone = system.startswith("regard") and task.startswith(("decode", "corpus", "text", "startup", "cost"))
    threads = "1" if alone else str(os.cpu_count())
    environment = os.environ | {"OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"}
    environment |= {"REGARD_CACHE": str(folder / "cache"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    command = [sys.executable, "-m", "systems.measure", task, system, str(seconds), folder]
    before = _clocks()
    done = subprocess.run(command, cwd=ROOT / "bench", env=environment, capture_output=True, text=True, check=False)
    wall, busy, children = (b - a for a, b in zip(before, _clocks(), strict=True))
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            foreign = max(0.0, busy - children) / (wall * (os.cpu_count() or 1))
            return {**json.loads(line.removeprefix("RESULT ")), "foreign": round(foreign, 3), "date": str(date.today())}
    print(f"{task} by {system} failed:\n{done.stdout}{done.stderr}", flush=True)
    return {}


def _clocks() -> tuple[float, float, float]:
    """Return seconds of wall time, of CPU time of all cores, and of CPU time of our processes."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    busy = sum(ticks) - ticks[3] - ticks[4]  # without idle and I/O wait
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), usage.ru_utime + usage.ru_stime


def left(works: dict[str, list[str]], measured: Works, *, count: int) -> list[tuple[int, str, str]]:
    """Return the missing measurements: in each round every work, with every system in turn."""
    turns = [(turn, task, system) for turn in range(count) for task, names in works.items() for system in names]
    return [
        (turn, task, system)
        for turn, task, system in turns
        if len(measured[task].get(system, [])) <= turn and not (turn and task.startswith(ONCE))
    ]


def rounds(todo: list[tuple[int, str, str]], measured: Works, *, seconds: float, save: Callable[[], None]) -> list[str]:
    """Measure and save after each measurement; return the failed ones, which are not retried."""
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        prepare(Path(temporary))
        for turn, task, system in todo:
            if f"{task} by {system}" in failed:
                continue
            record = run(task, system, seconds=seconds, folder=Path(temporary))
            if record:
                measured[task].setdefault(system, []).append(record)
                save()
                print(f"{turn + 1} {task:20} {system:24} {_format(record)}", flush=True)
            else:
                failed.append(f"{task} by {system}")
    return failed


def prepare(folder: Path) -> None:
    """Create sentences and models in a separate process, so that this one stays small."""
    environment = os.environ | {"REGARD_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "systems.prepare", folder]
    done = subprocess.run(command, cwd=ROOT / "bench", env=environment, check=False)
    if done.returncode:
        print("the preparation failed; regard and its peers must be installed:", file=sys.stderr)
        raise SystemExit("    pip install -c constraints.txt -e '.[ctranslate2,plots]' -r bench/requirements.txt")


def _format(record: dict[str, Any]) -> str:
    if "rate" in record:
        return f"{record['rate']:12.1f}/s, others {record['foreign']:.0%}"
    if "bytes" in record:
        return f"{record['bytes']:12,.0f} bytes"
    return f"{record['ready']:12.2f} s" if "ready" in record else " ".join(f"{x}:{y:.3f}" for x, y in record["points"])


def machine() -> dict[str, str]:
    """Describe the machine and the versions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    installed = [name for name in PEERS if importlib.util.find_spec(name)]
    versions = {name: importlib.metadata.version(name) for name in installed}
    data = "Multi30k en -> de" if workload.has_multi30k() else "made, of the lengths of Multi30k"
    return {"processor": f"{len(names)} x {names[0]}", "python": platform.python_version(), **versions, "data": data}


def begin(path: Path, chosen: dict[str, list[str]], *, remeasure: bool) -> dict[str, Any]:
    """Return the stored figures of this machine, without the chosen works if they are measured again."""
    this_machine = machine()
    old = json.loads(path.read_text()) if path.exists() else {}
    stored: Works = old.get("works", {}) if old.get("machine") == this_machine else {}
    works = {task: {} if remeasure and task in chosen else stored.get(task, {}) for task in WORKS}
    return {"machine": this_machine, "works": works}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="works whose names start with this; repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="minimum duration of each measurement")
    parser.add_argument("--continue", action="store_true", dest="more", help="keep the stored measurements")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="output folder")
    arguments = parser.parse_args()
    chosen = {t: s for t, s in WORKS.items() if not arguments.only or t.startswith(tuple(arguments.only))}
    if not chosen:
        raise SystemExit(f"--only {' '.join(arguments.only)}: no such work; choose from {', '.join(WORKS)}")
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    figures = begin(out / "speed.json", chosen, remeasure=not arguments.more)
    save = lambda: (out / "speed.json").write_text(json.dumps(figures, indent=1) + "\n")  # noqa: E731  # an argument
    todo = left(chosen, figures["works"], count=arguments.rounds)
    failed = rounds(todo, figures["works"], seconds=arguments.seconds, save=save) if todo else []
    plot.draw(figures["works"], out / "images" / "speed_cost.png")
    notes = (ROOT / "docs" / "speed_notes.md").read_text(encoding="utf-8")
    (out / "speed.md").write_text(page.page(figures, notes), encoding="utf-8")
    print((out / "speed.md").read_text(encoding="utf-8"))
    if failed:
        raise SystemExit(f"failed and not on the page: {', '.join(failed)}")


if __name__ == "__main__":
    main()
