"""Two trainings, changed data, threads, forks, Ctrl-C, network calls and pinned versions."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import reliability

import regard
from attack_cases.outcome import Outcome
from regard.attention.record import record
from regard.core.errors import RegardError
from regard.training import recipe as recipes
from regard.training import train as runs
from regard.training.console import SilentConsole
from regard.training.run_folder import RunFolder, lock_folder

TEXT = "The cook reads a book."
ROOT = Path(__file__).resolve().parents[2]


def _train(work: Path, *settings: str) -> Path:
    """Train a small run in another process, so that this one may be forked."""
    if not (work / "data").exists():
        reliability.make_data(work / "data")
    recipe = recipes.read("translation", settings=[*reliability.SETTINGS, f"data.path={work / 'data'}", *settings])
    notes = work / "notes"
    if reliability.in_a_process(lambda: reliability.go_on(recipe, work / "run"), notes):
        raise RuntimeError(notes.read_text(encoding="utf-8"))
    return work / "run"


def two_trainings(work: Path) -> Outcome:
    """Resume a run while another process trains in its folder, and create one that exists."""
    outcome = Outcome(note="the second is refused in one line, and nothing changes")
    run = _train(work)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    recipe = recipes.read("translation", settings=[*reliability.SETTINGS, f"data.path={work / 'data'}"])
    attempts = {
        "resume": lambda: runs.resume(run, ["training.epochs=9"], console=SilentConsole()),
        "train": lambda: runs.train(recipe, run, console=SilentConsole()),
    }
    with lock_folder(RunFolder(run)):
        for name, attempt in attempts.items():
            for _ in range(5):
                code = reliability.in_a_process(attempt, work / "notes")
                message = (work / "notes").read_text(encoding="utf-8")
                is_refused = code == reliability.REFUSED and len(message.splitlines()) == 1
                outcome.check(is_refused, f"{name}: {code} {message}")
    after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    outcome.check(before == after, "a file changed")
    return outcome


def changed_data(work: Path) -> Outcome:
    """Change a file of the data before a run is resumed; size and modification time stay the same."""
    outcome = Outcome(note="resuming is refused and names the split; a cache of the old data is not used")
    run = _train(work, "training.epochs=1")
    for name in ("train.en", "train.ko", "valid.en", "valid.ko"):
        path = work / "data" / name
        content, status = path.read_bytes(), path.stat()
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        code = reliability.in_a_process(
            lambda: runs.resume(run, ["training.epochs=2"], console=SilentConsole()), work / "notes"
        )
        message = (work / "notes").read_text(encoding="utf-8")
        outcome.check(code == reliability.REFUSED and name.split(".")[0] in message, f"{name}: {code} {message}")
        path.write_bytes(content)
    return outcome


def threads(work: Path) -> Outcome:
    """Load, predict and record in eight threads."""
    outcome = Outcome(note="every thread gets the results of a single one")
    run = _train(work)
    first = regard.load(run)
    expected = [prediction.text for prediction in first.predict([TEXT])[0]]
    with record(first.model) as maps:
        first.predict([TEXT])
    count = len(maps)

    def use(index: int) -> tuple[list[str], int]:
        loaded = regard.load(run)
        with record(loaded.model) as recorded:
            texts = [prediction.text for prediction in loaded.predict([TEXT])[0]]
        return texts, len(recorded)

    with ThreadPoolExecutor(8) as pool:
        for texts, recorded in pool.map(use, range(40)):
            outcome.check(texts == expected and recorded == count, f"{texts} with {recorded} maps of {count}")
        for texts in pool.map(lambda _: [item.text for item in first.predict([TEXT])[0]], range(40)):
            outcome.check(texts == expected, f"one run in many threads: {texts}")
    return outcome


def fork_after_load(work: Path) -> Outcome:
    """Predict in forked processes after the parent has loaded a run and predicted."""
    outcome = Outcome(note="the child predicts as the parent")
    loaded = regard.load(_train(work))
    expected = loaded.predict([TEXT])[0][0].text
    for _ in range(10):

        def predict() -> None:
            if loaded.predict([TEXT])[0][0].text != expected:
                raise RegardError("another prediction")

        code = reliability.in_a_process(predict, work / "notes")
        outcome.check(code == 0, f"the child ended with {code}")
    return outcome


def interrupted_predictions(work: Path) -> Outcome:
    """Interrupt predict at random times, then predict again."""
    outcome = Outcome(note="KeyboardInterrupt; the next prediction is that of an undisturbed run")
    loaded = regard.load(_train(work))
    texts = [TEXT] * 200
    expected = [row[0].text for row in loaded.predict(texts[:5])]
    for index in range(20):
        timer = threading.Timer(0.01 + 0.02 * index, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        interrupted = False
        try:
            while not interrupted:
                loaded.predict(texts)
        except KeyboardInterrupt:
            interrupted = True
        except Exception as error:
            outcome.check(False, f"predict raised {error!r} when it was interrupted")
        finally:
            timer.cancel()
            timer.join()
        outcome.check([row[0].text for row in loaded.predict(texts[:5])] == expected, f"differs after {index}")
    return outcome


def network_calls(work: Path) -> Outcome:
    """Trace the commands of a user with strace: no socket may be connected to the internet."""
    outcome = Outcome(note="no connect or sendto to an address outside of this machine")
    strace = shutil.which("strace")
    if strace is None:
        return Outcome(0, [], "strace is not installed: not tried")
    settings = [*reliability.SETTINGS, "data.pairs=60", "training.epochs=1"]
    run, page = str(work / "run"), str(work / "page.html")
    commands = {
        "train": ["train", "translation", *settings, "--out", run],
        "translate": ["translate", run, TEXT],
        "evaluate": ["evaluate", run],
        "look": ["look", run, TEXT, "--html", page],
        "info": ["info", run],
        "list": ["list", "models"],
        "data check": ["data", "check", str(work)],
    }
    for name, words in commands.items():
        log = work / "strace.log"
        command = [strace, "-f", "-qq", "-e", "trace=connect,sendto", "-o", str(log), sys.executable, "-m", "regard"]
        subprocess.run([*command, *words], check=False, capture_output=True, timeout=600)
        lines = log.read_text(errors="replace").splitlines()
        outside = [line for line in lines if re.search(r"AF_INET6?\b", line) and "127.0.0.1" not in line]
        outcome.check(not outside, f"{name}: {outside[:1]}")
    return outcome


def pinned_hashes(work: Path) -> Outcome:
    """Compare the pinned versions with the file of their hashes."""
    outcome = Outcome(note="every pinned version has hashes of its files")
    pinned = re.findall(r"^([\w.-]+==[^\s;]+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    hashed = (ROOT / "constraints-hashes.txt").read_text(encoding="utf-8")
    for version in pinned:
        name = version.lower().replace("_", "-")  # normalized
        has_hash = re.search(rf"^{re.escape(name)} \\\n    --hash=sha256:[0-9a-f]{{64}}", hashed, re.MULTILINE)
        outcome.check(has_hash is not None, f"{version}: no hash")
    return outcome
