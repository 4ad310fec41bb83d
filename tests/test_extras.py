"""Extras: each is required somewhere in the source, is part of `all`, and is described in the README."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
OUTSIDE = {"timm", "onnx", "huggingface", "ray"}  # large, for one option or one command
OFFERED = set(EXTRAS) - {"all", "dev", "docs"}  # the last two are for contributors


def test_every_extra_is_used_and_every_required_extra_exists():
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert set(re.findall(r'extra="(\w+)"', source)) == OFFERED


def test_all_contains_every_extra_and_the_readme_describes_them():
    assert EXTRAS["all"] == [f"regard[{','.join(name for name in EXTRAS if name in OFFERED - OUTSIDE)}]"]
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Extras")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == OFFERED | {"all"}
