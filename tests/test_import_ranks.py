"""Import rules: a package imports only packages of lower rank, and no modules import each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "regard"
TABLE = re.compile(r"^\| (\d+) \| (`\w+`(?:, `\w+`)*) \|", re.MULTILINE)


def ranks() -> dict[str, int]:
    """Package -> rank, from the table in CONTRIBUTING.md, which is the only one."""
    text = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {name.strip("` "): int(rank) for rank, names in TABLE.findall(text) for name in names.split(",")}


RANKS = ranks()
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


def imported(tree: ast.AST) -> Iterator[str]:
    """Return the dotted names of regard's modules in import statements and in strings given to `find`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"regard(\.\w+)+", node.value):
                yield node.value


def wrong_imports(package: str, code: str) -> list[str]:
    """Return the packages that a file of `package` imports and must not import."""
    own_modules = [name.split(".") for name in imported(ast.parse(code)) if name.split(".")[0] == "regard"]
    targets = {".".join(name): name[1] if len(name) > 1 else "" for name in own_modules}
    return [
        name
        for name, target in targets.items()
        if target != package and (target not in RANKS or RANKS[target] >= RANKS[package])
    ]


def test_every_package_has_a_rank():
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert folders <= set(RANKS)


def test_there_is_one_table_of_ranks():
    pages = [*SOURCE.parents[1].glob("*.md"), *SOURCE.parents[1].glob("docs/*.md")]
    assert [page.name for page in pages if TABLE.search(page.read_text(encoding="utf-8"))] == ["CONTRIBUTING.md"]


def test_imports_only_lower_ranks():
    names = {path: path.relative_to(SOURCE) for path in FILES}
    offenders = {
        str(name): wrong
        for path, name in names.items()
        if (wrong := wrong_imports(name.parts[0], path.read_text(encoding="utf-8")))
    }
    assert offenders == {}


@pytest.mark.parametrize(
    "code",
    [
        "from regard.models.gpt import Config",
        "import regard.training",
        "from regard import training",
        "import regard",
        "find('regard.training', name)",
        "def f():\n    from regard.decoding import beam",
    ],
)
def test_a_wrong_import_is_seen(code):
    assert wrong_imports("data", code)


def test_a_right_import_is_allowed():
    assert wrong_imports("data", "from regard.core import tree\nimport torch\nfrom regard.data import text") == []


def module_name(path: Path) -> str:
    return ".".join(("regard", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def test_modules_form_no_circle():
    modules = {module_name(path): path for path in FILES}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        body = ast.parse(path.read_text(encoding="utf-8")).body
        statements = ast.Module([node for node in body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        imports = {target if target in modules else target.rpartition(".")[0] for target in imported(statements)}
        graph[name] = {target for target in imports if target in modules and target != name}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        pytest.fail(f"modules import each other: {' -> '.join(circle.args[1])}")
