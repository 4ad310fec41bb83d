"""Write docs/api.md, the reference of the Python API, from signatures and docstrings.

    python bench/api_page.py

`tests/bench/test_api_page.py` checks that the page is current and that every public name has a description.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
HEAD = """# Python API

This page is generated from the signatures and docstrings of the code by `python bench/api_page.py`.
[Architecture](architecture.md) is the map of the modules. [Contributing](../CONTRIBUTING.md) shows complete scores,
positions, masks, models, decoding strategies, tasks and views.

Wrong uses raise `regard.RegardError` with a message of one line. Training logs its progress with the logger `regard`.
Shapes are written with the axes `b h t s d v`: batch, heads, queries or target, keys or source, features, vocabulary.
"""
SECTIONS: dict[str, tuple[str, list[str]]] = {  # title -> (introduction, "module:name" of each entry)
    "Runs": (
        "Train a run, or load one, and use it. Each verb of a task is a method of its run.",
        [
            "regard:train",
            "regard:load",
            "regard:resume",
            "regard:push",
            "regard:Run",
            "regard:Prediction",
            "regard:Client",
        ],
    ),
    "Attention": (
        "Attention as functions on tensors, and the maps of any model that is built with `Attend`.",
        [
            "regard:attend",
            "regard:attention_map",
            "regard:score",
            "regard:Mask",
            "regard:record",
            "regard:AttentionMap",
        ],
    ),
    "Building blocks": (
        "Modules for models of your own.",
        [
            "regard.attention.attend:Attend",
            "regard.attention.weigh:Weigh",
            "regard.attention.weigh:PositionBias",
            "regard.attention.score:ScoreFunction",
            "regard.attention.score:ProjectedKeys",
            "regard.attention.score:Dot",
            "regard.attention.normalizers:Softmax",
            "regard.attention.normalizers:Hard",
            "regard.layers.multihead:MultiHeadAttention",
            "regard.layers.multihead:HeadDims",
            "regard.layers.kv_cache:KV",
            "regard.layers.block:Block",
            "regard.layers.feedforward:FeedForward",
            "regard.layers.readout:Readout",
            "regard.layers.positions:build",
            "regard.layers.positions._base:PositionScheme",
        ],
    ),
    "Decoding": (
        "Search with any model that implements `Decoder`.",
        [
            "regard.core.protocols:Decoder",
            "regard.core.protocols:Hypothesis",
            "regard.decoding.strategy:build",
            "regard.decoding.strategy:DecodingStrategy",
            "regard.decoding.search:StrategySpec",
            "regard.decoding.search:Candidates",
            "regard.decoding.search:SearchState",
        ],
    ),
    "Tasks and inspection": (
        "The contract of a task, and the data of its page.",
        [
            "regard.core.task:Task",
            "regard.core.protocols:Loss",
            "regard.core.protocols:TargetMetric",
            "regard.core.inspectable:Inspectable",
            "regard.core.inspectable:Axis",
            "regard.core.inspectable:Item",
            "regard.core.inspectable:AxisRef",
            "regard.core.inspectable:Output",
        ],
    ),
    "Errors": (
        "Errors that a user can fix. All of them extend `RegardError`.",
        [
            "regard:RegardError",
            *(
                f"regard.core.errors:{name}"
                for name in (
                    "ConfigError",
                    "DataError",
                    "FileError",
                    "ShapeError",
                    "CheckpointError",
                    "TrustError",
                    "MissingExtra",
                )
            ),
        ],
    ),
}


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD]
    for title, (introduction, entries) in SECTIONS.items():
        parts += [f"## {title}\n", f"{introduction}\n", *(describe(entry) for entry in entries)]
    return "\n".join(parts)


def describe(entry: str) -> str:
    """ "module:name" -> its heading, signature, description, fields and methods."""
    module, name = entry.split(":")
    value = getattr(importlib.import_module(module), name)
    lines = [f"### {module}.{name}\n", _signature(value, name), _text(value)]
    if inspect.isclass(value):
        lines += [_fields(value), *(_method(value, method) for method in _public(value))]
    return "\n".join(line for line in lines if line).rstrip() + "\n"


def _signature(value: Any, name: str) -> str:
    if inspect.isclass(value) and "__init__" not in vars(value) and not hasattr(value, "__dataclass_fields__"):
        return ""
    try:
        return f"```text\n{name}{_arguments(value)}\n```\n"
    except (TypeError, ValueError):
        return ""


def _arguments(value: Any) -> str:
    """Return the arguments and the result of a function, without the quotes of unevaluated annotations."""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))
    return re.sub(r"<factory>", "…", re.sub(r"<function (\w+) at 0x\w+>", r"\1", text))


def _text(value: Any) -> str:
    """Return the docstring with its examples as code."""
    text = inspect.getdoc(value) or ""
    paragraphs = text.split("\n\n")
    return "\n\n".join(f"```text\n{part}\n```" if part.startswith(">>>") else part for part in paragraphs) + "\n"


def _fields(kind: type) -> str:
    """Return the fields of a dataclass or named tuple with the comments of their lines."""
    try:
        source = inspect.getsource(kind)
    except OSError:
        return ""
    names = [*getattr(kind, "__dataclass_fields__", {}), *getattr(kind, "_fields", ())]
    rows = []
    for name in names:
        match = re.search(rf"^    {name}: ([^#\n]+?)(?: = [^#\n]+?)?(?:  # (.+))?$", source, flags=re.MULTILINE)
        if match:
            rows.append(f"- `{name}`: `{match[1]}`" + (f". {match[2]}" if match[2] else ""))
    return "\n".join(rows) + "\n" if rows else ""


def _public(kind: type) -> list[str]:
    """Return the documented methods and properties of a class and of its bases in regard, in order."""
    names = [
        name
        for base in kind.__mro__
        if base.__module__.startswith("regard")
        for name in vars(base)
        if not name.startswith("_")
    ]
    return [
        name for name in dict.fromkeys(names) if _is_method(inspect.getattr_static(kind, name)) and _doc(kind, name)
    ]


def _is_method(value: Any) -> bool:
    return (
        inspect.isfunction(value) or isinstance(value, property | staticmethod | classmethod) or hasattr(value, "func")
    )


def _doc(kind: type, name: str) -> str:
    return inspect.getdoc(getattr(kind, name)) or ""


def _method(kind: type, name: str) -> str:
    value = inspect.getattr_static(kind, name)
    is_property = isinstance(value, property) or hasattr(value, "func")
    signature = "" if is_property else _arguments(getattr(kind, name))
    parameters = re.sub(r"^\(self(?:, )?(?:/, )?", "(", signature)
    doc = " ".join(_doc(kind, name).split())
    return f"- **`{name}{parameters}`**: {doc}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
