"""Extras: each is asked for somewhere in the source, is in `all`, and the README says what it is for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
OUTSIDE = {"timm", "onnx", "huggingface", "ray"}  # ask for much, for one option or one command
OFFERED = set(EXTRAS) - {"all", "dev", "docs"}  # the last two are for those who change this package


def test_every_extra_is_used_and_every_extra_that_is_asked_for_exists():
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert set(re.findall(r'extra="(\w+)"', source)) == OFFERED


def test_all_has_all_of_them_and_the_readme_says_what_for():
    assert EXTRAS["all"] == [f"regard[{','.join(name for name in EXTRAS if name in OFFERED - OUTSIDE)}]"]
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Extras")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == OFFERED | {"all"}
