"""Structural rules of the source, one test per rule; a failing test lists all offenders."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"
FILES = sorted(path for folder in ("src", "tests", "bench") for path in (ROOT / folder).rglob("*.py"))
SOURCES = [path for path in FILES if path.is_relative_to(SOURCE)]

MAX_FUNCTION_LINES = 60
MAX_CONSTRUCTOR_ARGUMENTS = 10
PICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
KERNELS = {"scaled_dot_product_attention", "MultiheadAttention", "flex_attention"}
Rule = Callable[[ast.AST, str], Iterator[str]]


def name_of(call: ast.Call) -> str:
    """'torch.load' for `torch.load(…)`, '….load' for `f(x).load(…)`, 'super().load' for `super().load(…)`."""
    attributes, node = [], call.func
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    is_super = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    first = node.id if isinstance(node, ast.Name) else "super()" if is_super else "…"
    return ".".join([first, *reversed(attributes)])


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def long_functions(tree: ast.AST, code: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{node.lineno}: {node.name} has {lines} lines"


def wide_constructors(tree: ast.AST, code: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            count = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) - 1
            if count > MAX_CONSTRUCTOR_ARGUMENTS:
                yield f"{node.lineno}: __init__ takes {count} arguments"


def attention_elsewhere(tree: ast.AST, code: str) -> Iterator[str]:
    """Yield attention weights outside of the package `attention`. A softmax elsewhere is of logits."""
    for node in ast.walk(tree):
        name = node.attr if isinstance(node, ast.Attribute) else node.name if isinstance(node, ast.alias) else ""
        if name.rpartition(".")[2] in KERNELS:
            yield f"{node.lineno}: {ast.unparse(node)}"
    for call in calls(tree):
        if name_of(call).rpartition(".")[2] in {"softmax", "Softmax"} and "logits" not in ast.unparse(call):
            yield f"{call.lineno}: {name_of(call)} of something that is not called logits"


def direct_forward(tree: ast.AST, code: str) -> Iterator[str]:
    """Yield calls of `module.forward(…)`, which run no hooks, so that `record` would not see them."""
    for call in calls(tree):
        name = name_of(call)
        if name.endswith(".forward") and not name.startswith("super()"):
            yield f"{call.lineno}: {name}"


def pickling(tree: ast.AST, code: str) -> Iterator[str]:
    """Yield functions that can run code when they read a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and PICKLERS & {alias.name.split(".")[0] for alias in node.names}:
            yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PICKLERS:
            yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and name_of(node) in {"torch.load", "torch.save", "eval", "exec"}:
            yield f"{node.lineno}: {name_of(node)}"
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            yield f"{node.value.lineno}: allow_pickle"


def asserts(tree: ast.AST, code: str) -> Iterator[str]:
    """Yield asserts: an error of the user is a RegardError, and `python -O` drops asserts. Asserts for type checkers
    may stay.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and not re.search(r" is not None$|^isinstance\(", ast.unparse(node.test)):
            yield f"{node.lineno}: {ast.unparse(node)}"


def digits_that_are_no_numbers(tree: ast.AST, code: str) -> Iterator[str]:
    """Yield tests by `isdigit`, which is true for ² and ①, where int raises a ValueError; `isdecimal` is not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "isdigit":
            yield f"{node.lineno}: {ast.unparse(node)}"


RULES = (wide_constructors, direct_forward, pickling, asserts, digits_that_are_no_numbers)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def offenders(rule: Rule, paths: Iterable[Path]) -> list[str]:
    """Return every line of these files that breaks a rule, as `file:line: problem`."""
    return [f"{relative(path)}:{problem}" for path in paths for problem in rule(*parse(path))]


@cache
def parse(path: Path) -> tuple[ast.AST, str]:
    """Return the syntax tree and the code of a file."""
    code = path.read_text(encoding="utf-8")
    return ast.parse(code), code


def test_functions_fit_a_screen():
    assert offenders(long_functions, FILES) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_source_follows_the_rule(rule):
    assert offenders(rule, SOURCES) == []


def test_attention_weights_are_computed_in_one_package():
    paths = [path for path in SOURCES if not path.is_relative_to(SOURCE / "attention")]
    assert offenders(attention_elsewhere, paths) == []


def test_no_file_is_called_utils():
    vague = {"utils", "util", "helpers", "misc", "common"}
    assert [relative(path) for path in FILES if vague & {path.stem, path.parent.name}] == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (long_functions, "def f():\n" + "    pass\n" * MAX_FUNCTION_LINES),
        (wide_constructors, "class A:\n    def __init__(self, a, b, c, d, e, f, *, g, h, i, j, k): ..."),
        (attention_elsewhere, "F.scaled_dot_product_attention(q, k, v)"),
        (attention_elsewhere, "from torch.nn.functional import scaled_dot_product_attention as fused"),
        (attention_elsewhere, "weights = torch.softmax(scores, dim=-1)"),
        (direct_forward, "self.layer.forward(x)"),
        (pickling, "import pickle"),
        (pickling, "from joblib import load"),
        (pickling, "torch.load(path, weights_only=True)"),
        (pickling, "np.load(path, allow_pickle=True)"),
        (asserts, "assert dim > 0, 'dim must be positive'"),
        (digits_that_are_no_numbers, "index = int(name) if name.isdigit() else None"),
    ],
)
def test_a_violation_is_reported(rule, code):
    assert list(rule(ast.parse(code), code))


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (long_functions, "def f():\n" + "    pass\n" * (MAX_FUNCTION_LINES - 1)),
        (wide_constructors, "class A:\n    def __init__(self, a, b, c, d, e, f, *, g, h, i, j): ..."),
        (attention_elsewhere, "torch.softmax(logits / temperature, dim=-1)\nF.log_softmax(x, -1)"),
        (direct_forward, "super().forward(x)\nself.layer(x)"),
        (pickling, "np.load(path, allow_pickle=False)\nmodel.eval()"),
        (asserts, "assert window is not None\nassert isinstance(layer, Heads)"),
        (digits_that_are_no_numbers, "index = int(name) if name.isdecimal() else None"),
    ],
)
def test_correct_code_is_not_reported(rule, code):
    assert not list(rule(ast.parse(code), code))
