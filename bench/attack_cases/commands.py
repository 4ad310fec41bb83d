"""Commands that are killed, or lose their power, at a file operation, and are then repeated."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import reliability
from fault_injection import KILL, POWER, Shim, lose_power

from attack_cases.outcome import Outcome
from regard.api.run import load
from regard.cli.commands import evaluate
from regard.convert.export_run import export_run
from regard.convert.import_model import import_model
from regard.core import files
from regard.core.errors import RegardError
from regard.data.text import mapped_corpus, pair_files, tokenizer
from regard.data.text.pair_files import Languages
from regard.experiments import _runner
from regard.experiments._experiment import Cell
from regard.training import recipe as recipes
from regard.training.average import average

POINTS = 12  # operations of each command at which it is struck
Work = Callable[[Path], object]  # folder with run/ -> what the command does


def killed_commands(work: Path) -> Outcome:
    """Kill export, average, evaluate and import at several operations, then repeat them."""
    outcome = Outcome(note="the run is unchanged; the result is complete or absent; repeating gives the same files")
    for name, command in _commands(work).items():
        _strike_all(outcome, work, name=name, command=command, kind=KILL)
    return outcome


def commands_without_power(work: Path) -> Outcome:
    """Kill commands as in `commands`, and discard unflushed data too."""
    outcome = Outcome(note="as above; unflushed data is lost")
    for name, command in _commands(work).items():
        _strike_all(outcome, work, name=name, command=command, kind=POWER)
    return outcome


def killed_caches(work: Path) -> Outcome:
    """Kill the encoding of a corpus at several operations, with and without power."""
    outcome = Outcome(note="the cache is complete or absent, and the next process encodes again")
    reliability.make_data(work / "data")
    (work / "base").mkdir()
    for kind in (KILL, POWER):
        _strike_all(outcome, work, name="corpus", command=partial(_encode, work / "data"), kind=kind)
    return outcome


def killed_experiment(work: Path) -> Outcome:
    """Kill an experiment at several operations; cells that were measured are not measured again."""
    outcome = Outcome(note="measured cells remain, and the repeated experiment has the same figures")
    (work / "base").mkdir()
    for kind in (KILL, POWER):
        _strike_all(outcome, work, name="experiment", command=_experiment, kind=kind)
    return outcome


def _commands(work: Path) -> dict[str, Work]:
    reliability.make_data(work / "data")
    settings = [*reliability.SETTINGS, f"data.path={work / 'data'}", "data.joint=true"]
    recipe = recipes.read("translation", settings=settings)
    hub = work / "hub"

    def prepare() -> None:
        reliability.go_on(recipe, work / "base" / "run")
        export_run(work / "base" / "run", "huggingface", hub)

    notes = work / "notes"
    if reliability.in_a_process(prepare, notes):
        raise RuntimeError(notes.read_text(encoding="utf-8"))
    return {
        "export to ctranslate2": lambda root: export_run(root / "run", "ctranslate2", root / "out"),
        "export to huggingface": lambda root: export_run(root / "run", "huggingface", root / "out"),
        "average": lambda root: average(root / "run", last=2, out=root / "out"),
        "evaluate": lambda root: evaluate.evaluate(load(root / "run"), "test"),
        "import": lambda root: import_model(str(hub), root / "out"),
    }


def _encode(data: Path, root: Path) -> None:
    pairs = pair_files.read(data, Languages("en", "ko"))["train"]
    trained = tokenizer.train([text for pair in pairs for text in pair], level="bpe", size=300)
    mapped_corpus.load_or_build(pairs, trained, trained, folder=root / "corpora")


def _experiment(root: Path) -> None:
    module: Any = SimpleNamespace(
        cells=lambda effort: [Cell(f"cell {index}", lambda index=index: {"a": float(index)}) for index in range(4)],
        verdict=lambda figures: None,
    )
    stored = _runner._load_or_start(root / _runner.FIGURES, 1.0)
    _runner._measure(module.cells(1.0), stored, root / _runner.FIGURES, lambda *_: None)


def _strike_all(outcome: Outcome, work: Path, *, name: str, command: Work, kind: str) -> None:
    """Strike a command at evenly spread operations."""
    alone, count = work / f"{name}-{kind}-alone", work / "count"
    shutil.copytree(work / "base", alone)

    def counted() -> None:
        shim = Shim(alone)
        shim.install()
        command(alone)
        count.write_text(str(shim.count), encoding="utf-8")

    notes = work / "notes"
    if reliability.in_a_process(counted, notes):
        outcome.check(False, f"{name}: {notes.read_text(encoding='utf-8')}")
        return
    expected, operations = _names(alone), int(count.read_text(encoding="utf-8"))
    for point in range(POINTS):
        at = 1 + point * operations // POINTS
        root = work / f"{name}-{kind}-{at}"
        shutil.copytree(work / "base", root)
        problem = _strike(root, command=command, kind=kind, at=at, notes=notes)
        outcome.check(not problem, f"{kind} in {name} at operation {at}: {problem}")
        if not problem:
            left = sorted(_names(root) ^ expected)
            outcome.broken += [f"{kind} in {name} at operation {at}: differs: {left[:5]}"] if left else []
        shutil.rmtree(root)


def _strike(root: Path, *, command: Work, kind: str, at: int, notes: Path) -> str:
    """Strike a command, repeat it -> what is wrong, or nothing."""
    store = root.with_name(f"{root.name}-store")
    store.mkdir()
    before = {path: path.read_bytes() for path in _files(root)}

    def struck() -> None:
        Shim(root, at=at, then=kind, store=store if kind == POWER else None).install()
        command(root)

    code = reliability.in_a_process(struck, notes)
    if code == -9 and kind == POWER:
        lose_power(root, store, random.Random(at))
    shutil.rmtree(store)
    if code not in (0, -9):
        return notes.read_text(encoding="utf-8")
    if any(not path.is_file() or path.read_bytes() != content for path, content in before.items()):
        return "a file of the run changed"

    def again() -> None:
        files._MIN_ABANDONED_S = 0.0
        try:
            command(root)
        except RegardError:
            if not (root / "out").exists():  # else the first process had finished
                raise

    return notes.read_text(encoding="utf-8") if reliability.in_a_process(again, notes) else ""


def _files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def _names(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in _files(root)}
