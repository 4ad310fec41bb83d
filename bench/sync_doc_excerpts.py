"""Copy source excerpts into the pages of docs/: python bench/sync_doc_excerpts.py updates those that changed.

A block that starts with `# src/regard/….py` is the complete file. With `# src/regard/….py: Name.method, other` it is
these functions and classes, without the indentation that they have in the file. A test compares blocks and source.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n# (src/[\w/.]+\.py)(?:: ([\w., ]+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def excerpt(path: Path, names: str | None) -> str:
    """Return the file, or its named functions and classes, one below the other."""
    code = path.read_text(encoding="utf-8")
    if names is None:
        return code
    return "\n\n".join(_piece(code, name) for name in names.split(", "))


def _piece(code: str, name: str) -> str:
    node: ast.AST = ast.parse(code)
    for part in name.split("."):
        inner = (child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == part)
        child_node = next(inner, None)
        if child_node is None:
            raise ValueError(f"there is no {name} in the file")
        node = child_node
    first, last = (getattr(node, end) for end in ("lineno", "end_lineno"))
    decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", [])]
    return textwrap.dedent("\n".join(code.splitlines()[min([first, *decorators]) - 1 : last])) + "\n"


def renewed(text: str) -> str:
    """Return a page with its excerpts updated from the source."""

    def block(match: re.Match[str]) -> str:
        path, names = match.group(1), match.group(2)
        title = path if names is None else f"{path}: {names}"
        return f"```python\n# {title}\n{excerpt(ROOT / path, names)}```"

    return BLOCK.sub(block, text)


def main() -> None:
    """Write every page whose excerpts are out of date."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if renewed(text) != text:
            page.write_text(renewed(text), encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
