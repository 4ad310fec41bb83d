"""The page: data and hand-written modules to one self-contained HTML file that works from disk with the network off.

There is no build step and nothing to install: the modules in `page/` are plain ES modules, and this file joins them.
Each module becomes a function that returns what it exports, in the order of their imports, so that names never collide.
Only two forms are understood, and only these are used: `import { a, b } from "./x.js";` and `export` before a const,
class or function.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.core.errors import DataError

PAGE = Path(__file__).parent / "page"
IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|class|function) (\w+))", re.MULTILINE)


def bundle(data: dict[str, Any], *, views: Sequence[Path] = ()) -> str:
    """Data (see format.py, or compare.py) -> the whole HTML page. `views` are further view files, of one's own task."""
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    shell = (PAGE / "index.html").read_text(encoding="utf-8")
    parts = {"/*{style}*/": style, "<!--{data}-->": escape(data), "/*{script}*/": script(views)}
    pattern = re.compile("|".join(map(re.escape, parts)))
    return pattern.sub(lambda found: parts[found.group()], shell)


def escape(data: dict[str, Any]) -> str:
    """JSON that cannot end its own script element: no `<` stays, so no text in it is ever read as HTML."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def script(views: Sequence[Path] = ()) -> str:
    """All modules joined into one script that starts the page with every view."""
    own = sorted((PAGE / "views").glob("*.js"))
    order: dict[Path, str] = {}
    for path in [PAGE / "main.js", *own, *views]:
        _visit(path.resolve(), order, ())
    numbers = {path: i for i, path in enumerate(order)}
    bodies = [
        f"modules[{numbers[path]}] = (() => {{\n{_joined(path, text, numbers)}\n}})();" for path, text in order.items()
    ]
    shown = ", ".join(f"modules[{numbers[path.resolve()]}].view" for path in _arranged(own, views))
    start = f"modules[{numbers[(PAGE / 'main.js').resolve()]}].start([{shown}]);"
    return "\n".join(["const modules = [];", *bodies, start]).replace("</script", "<\\/script")


def _arranged(own: Sequence[Path], views: Sequence[Path]) -> list[Path]:
    """Tabs in the order people need them; views that are not named come after, by name."""
    first = ["compare", "grid", "lines", "alignment", "steps", "training", "positions", "embeddings"]
    return sorted([*own, *views], key=lambda path: first.index(path.stem) if path.stem in first else len(first))


def _visit(path: Path, order: dict[Path, str], above: tuple[Path, ...]) -> None:
    """Puts a module into the order after everything it imports."""
    if path in order or path in above:
        return
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: no such view file") from None
    for _, name in IMPORT.findall(text):
        _visit(_target(path, name), order, (*above, path))
    order[path] = text


def _target(path: Path, name: str) -> Path:
    """Where an import leads; a view outside the package finds the page's own modules as if it lay in page/views."""
    beside = (path.parent / name).resolve()
    return beside if beside.exists() else (PAGE / "views" / name).resolve()


def _joined(path: Path, text: str, numbers: dict[Path, int]) -> str:
    def taken(found: re.Match[str]) -> str:
        names = re.sub(r"(\w+) as (\w+)", r"\1: \2", found.group(1).strip())
        return f"const {{ {names} }} = modules[{numbers[_target(path, found.group(2))]}];\n"

    given = ", ".join(EXPORT.findall(text))
    body = EXPORT.sub("", IMPORT.sub(taken, text))
    if left := re.search(r"^(?:import|export)\b.*", body, re.MULTILINE):
        raise DataError(
            f'{path}: cannot join {left.group()!r}; write import {{ name }} from "./file.js"; or export const name'
        )
    return f"{body}return {{ {given} }};"
