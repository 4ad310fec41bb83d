"""Python code on the pages: excerpts equal the source, other blocks run, and the rest uses names that exist.

A block that needs a run or a server of the reader follows `<!-- not run: why -->`; the names it uses must exist.
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
spec = importlib.util.spec_from_file_location("excerpts", ROOT / "bench" / "sync_doc_excerpts.py")
excerpts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(excerpts)

PAGES = [ROOT / "README.md", ROOT / "README.ko.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path) -> list[tuple[bool, str]]:
    """(is run, code) of every block that is not an excerpt."""
    matches = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(not comment, code) for comment, code in matches if not code.startswith("# src/")]


RUN = [page for page in PAGES if any(run for run, _ in blocks(page))]
NOT_RUN = [page for page in PAGES if not all(run for run, _ in blocks(page))]


@pytest.mark.parametrize("page", excerpts.PAGES, ids=relative)
def test_excerpts_equal_the_source(page):
    text = page.read_text(encoding="utf-8")
    assert excerpts.renewed(text) == text, "update them: python bench/sync_doc_excerpts.py"


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
def test_names_in_blocks_that_are_not_run_exist(page):
    assert [missing for run, code in blocks(page) if not run for missing in missing_names(code)] == []


def missing_names(code: str) -> list[str]:
    """Return names of regard that the code imports or uses and that do not exist."""
    missing = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard"):
            module = importlib.import_module(node.module or "")
            missing += [f"{node.module}.{alias.name}" for alias in node.names if not hasattr(module, alias.name)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "regard":
            missing += [f"regard.{node.attr}"] if not hasattr(regard, node.attr) else []
    return missing


def test_a_missing_name_is_reported():
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
    for index, cell in enumerate(code_cells(path)):
        exec(compile("".join(cell["source"]), f"{path.name}, cell {index}", "exec"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=relative)
def test_a_notebook_is_stored_without_outputs(path):
    assert code_cells(path)
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code_cells(path))
    assert path.stat().st_size < 20_000


def code_cells(path: Path) -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
