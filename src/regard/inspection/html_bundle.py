"""Bundle data and the JavaScript modules of `page/` into one self-contained HTML file that works offline.

There is no build step: the modules in `page/` are plain ES modules, and this file joins them. Each module becomes a
function that returns its exports, in the order of the imports, so that names never collide. Two forms are supported:
`import { a, b } from "./x.js";` and `export` before a const, class or function. A view of another package gets a
separate script, so that an error in it does not affect other views.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.core.errors import DataError, did_you_mean

PAGE = Path(__file__).resolve().parent / "page"
# views before and after those of the task
FIRST_VIEWS, LAST_VIEWS = ("compare", "grid", "lines"), ("steps", "training", "positions", "embeddings")
SERVER_RULES = "img-src data: blob:; connect-src 'self'"
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
DATA_ELEMENT = '<script type="application/json" id="data">'
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|class|function) (\w+))", re.MULTILINE)


def bundle(data: dict[str, Any], *, elements: str = "", rules: str = SERVER_RULES) -> str:
    """Return the HTML page of data (see json_format.py or compare.py), with the views that the data names.

    `elements` are further HTML elements after the data, and `rules` of the content policy what the page may load.
    """
    style, texts = _style(), scripts(_view_names(data))
    modules = [f'<script type="module">{text}</script>' for text in texts]
    return _fill(_shell(), data, content_policy([style], texts, rules), style, [elements, *modules])


def page_start(nonce: str) -> str:
    """Return the start of a page whose data is still being computed: its header and a placeholder.

    Its scripts are not known yet, so the content security policy allows the scripts with `nonce` instead of hashes.
    """
    style = _style()
    policy = f"default-src 'none'; style-src {_hash_source(style)}; script-src 'nonce-{nonce}'; {SERVER_RULES}"
    # not a module, which would wait for the rest of the page
    script = f'<script nonce="{nonce}">{standalone_script("shell.js")}</script>\n'
    return _fill(_shell().partition(DATA_ELEMENT)[0], {}, policy, style, []) + script


def page_end(data: dict[str, Any], nonce: str) -> str:
    """Return the rest of a page that `page_start` started."""
    rest = "".join(_shell().partition(DATA_ELEMENT)[1:])
    texts = scripts(_view_names(data))
    return _fill(rest, data, "", "", [f'<script type="module" nonce="{nonce}">{text}</script>' for text in texts])


def _shell() -> str:
    return (PAGE / "index.html").read_text(encoding="utf-8")


def _style() -> str:
    return inline_text((PAGE / "style.css").read_text(encoding="utf-8"))


def _view_names(data: dict[str, Any]) -> list[str]:
    return [name for run in data.get("runs", [data]) for name in run.get("views", ())]


def _fill(shell: str, data: dict[str, Any], policy: str, style: str, elements: list[str]) -> str:
    """Fill the gaps of the shell, or of a part of it, in one pass: no content is filled again."""
    parts = {
        "/*{style}*/": style,
        "<!--{data}-->": escape(data),
        "<!--{scripts}-->": "\n".join(elements),
        "<!--{policy}-->": policy,
    }
    pattern = re.compile("|".join(map(re.escape, parts)))
    return pattern.sub(lambda match: parts[match.group()], shell)


def content_policy(styles: Iterable[str], scripts: Iterable[str], rules: str) -> str:
    """Return the content security policy of a page: it runs these styles and scripts and no others, and loads nothing
    except by the further `rules`."""
    style_hashes, script_hashes = (" ".join(map(_hash_source, texts)) for texts in (styles, scripts))
    script_rule = f"script-src {script_hashes}; " if script_hashes else ""
    return f"default-src 'none'; style-src {style_hashes}; {script_rule}{rules}"


def policy_of(page: str) -> str:
    """Return the content security policy of an HTML page."""
    match = POLICY.search(page)
    return "default-src 'none'" if match is None else match.group(1)


def inline_text(text: str) -> str:
    """Return a text as a browser reads it from an HTML file: it replaces other line ends before it computes hashes."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _hash_source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def escape(data: dict[str, Any]) -> str:
    """Return JSON without `<`, so that it cannot end its script element and is never parsed as HTML."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def scripts(view_names: Iterable[str] = ()) -> list[str]:
    """Return the scripts of the page: its own modules, those of each external view, and the start call."""
    views = {name: view_file(name) for name in dict.fromkeys([*FIRST_VIEWS, *view_names, *LAST_VIEWS])}
    texts: dict[Path, str] = {}
    builtin: list[Path] = []
    external: list[list[Path]] = []
    for path in [PAGE / "main.js", *views.values()]:
        before = len(texts)
        _visit(path, texts, ())
        new = list(texts)[before:]
        builtin += [module for module in new if module.is_relative_to(PAGE)]
        external.append([module for module in new if not module.is_relative_to(PAGE)])
    for path in views.values():
        if "view" not in EXPORT.findall(texts[path]):
            raise DataError(
                f"{path}: a view must export one object: export const view = {{ name, title, suits, show }}"
            )
    indices = {path: index for index, path in enumerate(texts)}
    groups = [group for group in [builtin, *external] if group]
    bodies = ["\n".join(_wrap_module(path, texts[path], indices) for path in group) for group in groups]
    pairs = ", ".join(f"[{json.dumps(name)}, modules[{indices[path]}]?.view]" for name, path in views.items())
    bodies.append(f"modules[{indices[PAGE / 'main.js']}].start([{pairs}]);")
    return [_script_text(body) for body in bodies]


def standalone_script(name: str | Path) -> str:
    """Return a script with a module and its imports, which calls the module's `start`; a name is of a module of the
    page."""
    texts: dict[Path, str] = {}
    _visit(PAGE / name, texts, ())
    indices = {path: index for index, path in enumerate(texts)}
    body = "\n".join(_wrap_module(path, text, indices) for path, text in texts.items())
    return _script_text(f"{body}\nmodules[{indices[PAGE / name]}].start();")


def view_file(name: str) -> Path:
    """Return the file of a view: in page/views/, or for a dotted name in or next to that module."""
    if "." not in name:
        path = PAGE / "views" / f"{name}.js"
        if not path.exists():
            names = [file.stem for file in (PAGE / "views").glob("*.js")]
            raise DataError(f"unknown view {name!r}; {did_you_mean(name, names)}")
        return path
    package, _, stem = name.rpartition(".")
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise DataError(f"view {name!r}: package {package!r} not found; is its folder on PYTHONPATH?")
    folders = [Path(folder) for folder in spec.submodule_search_locations or [str(Path(spec.origin or "").parent)]]
    files = [folder / f"{stem}.js" for folder in folders]
    for path in files:
        if path.exists():
            return path.resolve()
    raise DataError(f"view {name!r}: no such file: {files[0]}")


def _visit(path: Path, texts: dict[Path, str], importers: tuple[Path, ...]) -> None:
    """Read a module into `texts`, after its imports."""
    if path in texts or path in importers:
        return
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{importers[-1]}: imports {path.name}, which does not exist") from None
    for _, name in IMPORT.findall(text):
        _visit(_resolve(path, name), texts, (*importers, path))
    texts[path] = text


def _resolve(path: Path, name: str) -> Path:
    """Return the file of an import. A view outside of the package may import modules relative to page/views."""
    sibling = (path.parent / name).resolve()
    return sibling if sibling.exists() else (PAGE / "views" / name).resolve()


def _script_text(body: str) -> str:
    """Return the text of a script element, which cannot contain its end tag."""
    return inline_text(f"const modules = (globalThis.modules ??= []);\n{body}".replace("</script", "<\\/script"))


def _wrap_module(path: Path, text: str, indices: dict[Path, int]) -> str:
    """Return a module as a function expression that is called immediately and returns its exports."""

    def replace_import(match: re.Match[str]) -> str:
        names = re.sub(r"(\w+) as (\w+)", r"\1: \2", match.group(1).strip())
        return f"const {{ {names} }} = modules[{indices[_resolve(path, match.group(2))]}];\n"

    exports = EXPORT.findall(text)
    body = EXPORT.sub("", IMPORT.sub(replace_import, text))
    if unsupported := re.search(r"^(?:import|export)\b.*", body, re.MULTILINE):
        raise DataError(
            f'{path}: cannot join {unsupported.group()!r}; use import {{ name }} from "./file.js"; or export const name'
        )
    return f"modules[{indices[path]}] = (() => {{\n{body}return {{ {', '.join(exports)} }};\n}})();"
