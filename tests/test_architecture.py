"""docs/architecture.md and CONTRIBUTING.md name only modules and attributes that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
PACKAGES = "|".join(sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and not path.name.startswith("_")))
MODULE = re.compile(rf"(?<![\w/])(?:src/regard/)?((?:{PACKAGES})/[\w/]*(?:\.py|/|\b))")
NAME = re.compile(r"`([A-Z]\w*[a-z]\w*)(?:\.(\w+))?(?:\(.*?\))?`")
OTHER = {"Adam", "False", "None", "True", "NamedTuple", "Literal", "Tensor", "TypeError", "Annotated"}


@cache
def members() -> dict[str, set[str]]:
    """Class -> its methods, fields and attributes, in any module of the source."""
    result: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                names = result.setdefault(node.name, set())
                for child in ast.walk(node):
                    if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                        names.add(child.name)
                    elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
                        names.add(child.target.id)
                    elif isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store):
                        names.add(child.attr)
    return result


def missing(text: str) -> list[str]:
    """Return modules, classes and attributes that a page names and that do not exist."""
    problems = []
    for name in MODULE.findall(text):
        path = SOURCE / name
        if "NAME" not in name and not (path.exists() or path.with_suffix(".py").exists()):
            problems.append(name)
    for owner, attribute in NAME.findall(text):
        if owner not in OTHER and (owner not in members() or (attribute and attribute not in members()[owner])):
            problems.append(f"{owner}.{attribute}" if attribute else owner)
    return problems


@pytest.mark.parametrize("page", PAGES)
def test_every_named_module_and_attribute_exists(page):
    assert missing((ROOT / page).read_text(encoding="utf-8")) == []


def test_a_missing_name_is_reported():
    text = (
        "`attention/attend.py`: `Attend.forward`, `Attend.over_cache`, `Nothing`, `attention/nowhere.py`, `attention/`"
    )
    assert missing(text) == ["attention/nowhere.py", "Attend.over_cache", "Nothing"]
