"""Corrupted run folders: configuration, task files, log, weights or names are changed, and checksums updated."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import regard
from fuzz_cases import Case, mutate
from fuzz_cases.calling import call
from fuzz_cases.samples import Sample, samples
from regard.training import train as runs
from regard.training.average import average
from regard.training.console import SilentConsole

ZEROS = b"0" * 64
ACTIONS = {"load": 30, "predict": 30, "info": 12, "average": 8, "evaluate": 4, "resume": 4, "look": 1}
TARGETS = ("/dev/zero", "/etc/passwd", "../outside/file", "../outside", "nowhere", ".")


class Kind:
    """Mutated run folders."""

    def prepare(self, work: Path) -> None:
        self.samples = samples(work)

    def make(self, rng: random.Random, folder: Path) -> Case:
        sample = rng.choice(self.samples)
        path = folder / "run"
        shutil.copytree(sample.path, path)
        changes = "; ".join(_spoil(rng, path) for _ in range(rng.choice([1, 1, 1, 2])))
        action = rng.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        return Case(f"{sample.name}: {changes} -> {action}", lambda: _use(action, path, sample))


def _use(action: str, path: Path, sample: Sample) -> Any:
    """Use a run as a user does."""
    if action == "info":
        return call("info", str(path))
    if action == "average":
        return average(path, last=1, out=path.with_name("mean"))
    if action == "resume":
        settings = [f"training.steps={sample.steps + 1}", "training.epochs=1000", "training.evaluation.every=100000"]
        return runs.resume(path, settings, console=SilentConsole())
    run = regard.load(path)
    uses = {
        "load": lambda: run,
        "predict": lambda: run.predict([sample.text]),
        "evaluate": lambda: run.evaluate("test"),
        "look": lambda: run.look(sample.text),
    }
    return uses[action]()


def _spoil(rng: random.Random, path: Path) -> str:
    """Change one thing in a run folder; return its description."""
    plain = (file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    files = sorted(file for file in plain if file.stat().st_size < 2**24)  # one that was made large stays so
    if not files:
        return "nothing left"
    config = path / "config.json"
    choice = rng.random()
    if choice < 0.4 and config in files:
        return _spoil_config(rng, config)
    chosen = rng.choice(files)
    name = chosen.relative_to(path).as_posix()
    if choice < 0.55:
        return f"{name} {_replace(rng, chosen)}"
    if chosen.suffix == ".safetensors" and rng.random() < 0.8:
        return f"{name} {_spoil_tensors(rng, chosen)}"
    if chosen.suffix == ".json" and chosen != config and rng.random() < 0.8:
        table = _read(chosen)
        change = mutate.tree(rng, table) if isinstance(table, dict | list) and table else "kept"
        chosen.write_bytes(mutate.as_json(rng, table))
    else:
        change = "bytes"
        chosen.write_bytes(mutate.data(rng, chosen.read_bytes()))
    _update_checksum(config, name, chosen)
    return f"{name} {change}"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes()) if path.stat().st_size < 2**24 else {}
    except (ValueError, RecursionError):
        return {}


def _spoil_config(rng: random.Random, config: Path) -> str:
    table = _read(config)
    if not isinstance(table, dict) or not table:
        return "config kept"
    change = mutate.tree(rng, table)
    if rng.random() < 0.8:
        _seal_json(config, table)
        return f"config{change}"
    config.write_bytes(mutate.data(rng, config.read_bytes()) if rng.random() < 0.5 else mutate.as_json(rng, table))
    return f"config{change} unsealed"


def _seal_json(path: Path, table: dict[str, Any]) -> None:
    table.pop("sha256", None)
    data = json.dumps({**table, "sha256": ZEROS.decode()}, indent=2).encode()
    path.write_bytes(data.replace(ZEROS, hashlib.sha256(data).hexdigest().encode()))


def _update_checksum(config: Path, name: str, changed: Path) -> None:
    """Update the checksum of a changed file in config.json."""
    table = _read(config) if config.is_file() and not config.is_symlink() else {}
    if isinstance(table, dict) and isinstance(table.get("files"), dict) and name in table["files"]:
        table["files"][name] = hashlib.sha256(changed.read_bytes()).hexdigest()
        _seal_json(config, table)


def _replace(rng: random.Random, path: Path) -> str:
    """Replace a file by something else."""
    how = rng.choice(["missing", "empty", "folder", "link", "pipe", "large", "renamed"])
    if how == "large":
        os.truncate(path, 2**34)  # a hole: it takes no room
        return how
    if how == "renamed":
        path.rename(path.with_name(rng.choice(["x", "\n", "-rf", "\udcff", "a" * 200])))
        return how
    path.unlink()
    if how == "empty":
        path.touch()
    elif how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "link":
        target = rng.choice(TARGETS)
        path.symlink_to(target)
        return f"link to {target}"
    return how


def _spoil_tensors(rng: random.Random, path: Path) -> str:
    """Change the header or the numbers, and update the checksum."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    try:
        header = json.loads(raw[8 : 8 + size])
        facts = json.loads(header.pop("__metadata__")["regard"])
    except (ValueError, KeyError, TypeError):
        return "kept"
    body = bytearray(raw[8 + size :])
    if rng.random() < 0.3:
        change = f"facts{mutate.tree(rng, facts)}"
    elif header and rng.random() < 0.6:
        change = mutate.tree(rng, header)
    else:
        pattern = rng.choice([b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\xff\xff\x7f\x7f", b"\xff\xff\xff\xff", b"\0\0\0\0"])
        at, count = 4 * rng.randrange(len(body) // 4 + 1), rng.choice([1, 100, len(body)])
        end = min(len(body), at + 4 * count) // 4 * 4
        body[at:end] = pattern * ((end - at) // 4)
        change = "numbers"
    header["__metadata__"] = {"regard": json.dumps({**facts, "sha256": ZEROS.decode()})}
    text = json.dumps(header).encode()
    whole = len(text).to_bytes(8, "little") + text + bytes(body)
    path.write_bytes(whole.replace(ZEROS, hashlib.sha256(whole).hexdigest().encode(), 1))
    return change
