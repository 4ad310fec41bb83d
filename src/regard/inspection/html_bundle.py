"""The page: data and hand-written modules to one self-contained HTML file that works from disk with the network off.

There is no build step and nothing to install: the modules in `page/` are plain ES modules, and this file joins them.
Each module becomes a function that returns what it exports, in the order of their imports, so that names never collide.
Only two forms are understood, and only these are used: `import { a, b } from "./x.js";` and `export` before a const,
class or function. A view of another package has a script of its own, so that a mistake in it breaks nothing else.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.core.errors import DataError, did_you_mean

PAGE = Path(__file__).resolve().parent / "page"
BEFORE, AFTER = ("compare", "grid", "lines"), ("steps", "training", "positions", "embeddings")  # those a task names
IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|class|function) (\w+))", re.MULTILINE)


def bundle(data: dict[str, Any]) -> str:
    """Data (see format.py, or compare.py) -> the whole HTML page, with the views that the data names."""
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    shell = (PAGE / "index.html").read_text(encoding="utf-8")
    named = [name for run in data.get("runs", [data]) for name in run.get("views", ())]
    elements = "\n".join(f'<script type="module">{script}</script>' for script in scripts(named))
    parts = {"/*{style}*/": style, "<!--{data}-->": escape(data), "<!--{scripts}-->": elements}
    pattern = re.compile("|".join(map(re.escape, parts)))
    return pattern.sub(lambda found: parts[found.group()], shell)


def escape(data: dict[str, Any]) -> str:
    """JSON that cannot end its own script element: no `<` stays, so no text in it is ever read as HTML."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def scripts(view_names: Iterable[str] = ()) -> list[str]:
    """The page's own modules, then those of each view from elsewhere, then the line that starts the page."""
    views = {name: view_file(name) for name in dict.fromkeys([*BEFORE, *view_names, *AFTER])}
    texts: dict[Path, str] = {}
    own: list[Path] = []
    foreign: list[list[Path]] = []
    for path in [PAGE / "main.js", *views.values()]:
        before = len(texts)
        _visit(path, texts, ())
        fresh = list(texts)[before:]
        own += [module for module in fresh if module.is_relative_to(PAGE)]
        foreign.append([module for module in fresh if not module.is_relative_to(PAGE)])
    for path in views.values():
        if "view" not in EXPORT.findall(texts[path]):
            raise DataError(f"{path}: a view exports one object: export const view = {{ name, title, suits, show }}")
    numbers = {path: number for number, path in enumerate(texts)}
    bodies = ["\n".join(_joined(path, texts[path], numbers) for path in part) for part in [own, *foreign] if part]
    shown = ", ".join(f"[{json.dumps(name)}, modules[{numbers[path]}]?.view]" for name, path in views.items())
    bodies.append(f"modules[{numbers[PAGE / 'main.js']}].start([{shown}]);")
    return [_begun(body) for body in bodies]


def standalone_script(name: str) -> str:
    """A module of the page -> a script of it and all that it imports, which calls its `start`."""
    texts: dict[Path, str] = {}
    _visit(PAGE / name, texts, ())
    numbers = {path: number for number, path in enumerate(texts)}
    body = "\n".join(_joined(path, text, numbers) for path, text in texts.items())
    return _begun(f"{body}\nmodules[{numbers[PAGE / name]}].start();")


def view_file(name: str) -> Path:
    """A view's name -> its file: in page/views/, or for a dotted name in or beside the module so named."""
    if "." not in name:
        path = PAGE / "views" / f"{name}.js"
        if not path.exists():
            known = [file.stem for file in (PAGE / "views").glob("*.js")]
            raise DataError(f"no view {name!r}; {did_you_mean(name, known)}")
        return path
    package, _, stem = name.rpartition(".")
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise DataError(f"view {name!r}: no package {package!r}; is its folder on PYTHONPATH?")
    folders = [Path(folder) for folder in spec.submodule_search_locations or [str(Path(spec.origin or "").parent)]]
    files = [folder / f"{stem}.js" for folder in folders]
    for path in files:
        if path.exists():
            return path.resolve()
    raise DataError(f"view {name!r}: no file {files[0]}")


def _visit(path: Path, texts: dict[Path, str], above: tuple[Path, ...]) -> None:
    """Reads a module, after everything it imports."""
    if path in texts or path in above:
        return
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{above[-1]}: it imports {path.name}, and there is no such file") from None
    for _, name in IMPORT.findall(text):
        _visit(_target(path, name), texts, (*above, path))
    texts[path] = text


def _target(path: Path, name: str) -> Path:
    """Where an import leads; a view outside the package finds the page's own modules as if it lay in page/views."""
    beside = (path.parent / name).resolve()
    return beside if beside.exists() else (PAGE / "views" / name).resolve()


def _begun(body: str) -> str:
    """The text of a script element, which it cannot end itself."""
    return f"const modules = (globalThis.modules ??= []);\n{body}".replace("</script", "<\\/script")


def _joined(path: Path, text: str, numbers: dict[Path, int]) -> str:
    """A module as a function that is called at once and gives what it exports."""

    def taken(found: re.Match[str]) -> str:
        names = re.sub(r"(\w+) as (\w+)", r"\1: \2", found.group(1).strip())
        return f"const {{ {names} }} = modules[{numbers[_target(path, found.group(2))]}];\n"

    given = EXPORT.findall(text)
    body = EXPORT.sub("", IMPORT.sub(taken, text))
    if left := re.search(r"^(?:import|export)\b.*", body, re.MULTILINE):
        raise DataError(
            f'{path}: cannot join {left.group()!r}; write import {{ name }} from "./file.js"; or export const name'
        )
    return f"modules[{numbers[path]}] = (() => {{\n{body}return {{ {', '.join(given)} }};\n}})();"
