"""Python on the pages is true: excerpts are the source itself, other blocks are run, and what cannot be is checked.

A block that needs what only a reader has (a run, a server) stands behind `<!-- not run: why -->`; what it uses of
regard must exist all the same.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("excerpts", ROOT / "bench" / "excerpts.py")
excerpts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(excerpts)

PAGES = [ROOT / "README.md", ROOT / "README.ko.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path) -> list[tuple[bool, str]]:
    """Whether it is to be run, and the code of every block that is no excerpt."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(not mark, code) for mark, code in found if not code.startswith("# src/")]


RUN = [page for page in PAGES if any(run for run, _ in blocks(page))]
NOT_RUN = [page for page in PAGES if not all(run for run, _ in blocks(page))]


@pytest.mark.parametrize("page", excerpts.PAGES, ids=relative)
def test_excerpts_are_the_source_as_it_is(page):
    text = page.read_text(encoding="utf-8")
    assert excerpts.renewed(text) == text, "write them anew: python bench/excerpts.py"


def test_an_excerpt_is_found_by_its_name(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("import os\n\n\nclass A:\n    @property\n    def f(self):\n        return 1\n", encoding="utf-8")
    assert excerpts.excerpt(file, "A.f") == "@property\ndef f(self):\n    return 1\n"
    assert excerpts.excerpt(file, None).startswith("import os")
    with pytest.raises(ValueError, match=r"no A\.g"):
        excerpts.excerpt(file, "A.g")


@pytest.mark.parametrize("page", RUN, ids=relative)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for run, code in blocks(page):
        if run:
            exec(compile(code, relative(page), "exec"), names)


@pytest.mark.parametrize("page", NOT_RUN, ids=relative)
def test_what_blocks_that_are_not_run_use_exists(page):
    assert [missing for run, code in blocks(page) if not run for missing in missing_names(code)] == []


def missing_names(code: str) -> list[str]:
    """What the code takes of regard, by import or as regard.name, that is not there."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard"):
            module = importlib.import_module(node.module or "")
            found += [f"{node.module}.{each.name}" for each in node.names if not hasattr(module, each.name)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "regard":
            found += [f"regard.{node.attr}"] if not hasattr(regard, node.attr) else []
    return found


def test_a_name_that_is_gone_is_seen():
    assert missing_names("from regard.attention.masks import Musk\nregard.atend(q, k, v)") == [
        "regard.attention.masks.Musk",
        "regard.atend",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=relative)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_STEPS", "2")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(path)):
        exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=relative)
def test_a_notebook_is_kept_without_its_outputs(path):
    assert code_cells(path)
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code_cells(path))
    assert path.stat().st_size < 20_000


def code_cells(path: Path) -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
