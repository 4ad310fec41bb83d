"""Results of `regard evaluate` in a run folder: one file per split and settings, so that none replaces another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core.checksummed_json import read_json, write_json
from regard.training import migrations

HASH_DIGITS = 8  # of the SHA-256 of the settings, in the file name
NO_DECODING = "none"  # in the file name of a task that does not decode


def store(folder: Path, report: Mapping[str, Any]) -> Path:
    """Write a report with the keys `split`, `decoding` and `settings` to the run folder; return its path."""
    path = folder / file_name(report["split"], report["decoding"], report["settings"])
    write_json(path, dict(report))
    return path


def file_name(split: str, decoding: Mapping[str, Any], settings: Sequence[str] = ()) -> str:
    """Return the file name of an evaluation: evaluation-test-beam-1a2b3c4d.json.

    `decoding` are all settings of the search, `settings` the other settings that differ from the run. The order of the
    settings does not matter.
    """
    text = json.dumps([decoding, sorted(settings)], sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]
    return f"evaluation-{split}-{decoding.get('name', NO_DECODING)}-{digest}.json"


def read_all(folder: Path, task: str) -> Iterator[dict[str, Any]]:
    """Yield the reports of a run of a task, by file name. Files of older versions have no hash in their name."""
    for path in sorted(folder.glob("evaluation-*.json")):
        report = {"decoding": {}, "settings": [], "scores": {}, **read_json(path), "file": path.name}
        yield report | {"scores": migrations.to_shares(task, report["scores"])}


def describe_settings(report: Mapping[str, Any], own_decoding: Mapping[str, Any]) -> str:
    """Return the settings of a report that differ from those of the run: 'beam_width=1'; '' if none does."""
    decoding = report["decoding"]
    is_same_search = decoding.get("name") == own_decoding.get("name")
    changed = [
        f"decoding.{name}={value}"
        for name, value in decoding.items()
        if name != "name" and not (is_same_search and own_decoding.get(name) == value)
    ]
    search = [] if is_same_search else [f"decoding={decoding.get('name', NO_DECODING)}"]
    return " ".join([*search, *changed, *report["settings"]])
