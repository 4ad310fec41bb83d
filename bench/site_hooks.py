"""What the site has beside docs/: hooks of mkdocs.yml. `mkdocs build` runs them; nothing is fetched.

- CONTRIBUTING.md, CHANGELOG.md and the READMEs are pages of their own.
- A link from a page to a file of the repository leads to a page with that file, so that the site is whole by itself.
- Formulas between lines of $$ become MathML, which browsers draw without a script.
- Notebooks in docs/notebooks become pages, figures in docs/figures (the data of an explorer page) become such pages.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OWN = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "readme.md",
    "README.ko.md": "readme.ko.md",
}
SOURCE = "source"  # the folder of the site for files of the repository
CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")
MATH = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".js": "javascript", ".md": "markdown"}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for name, place in OWN.items():
        nav = place in str(config["nav"])
        _add(files, config, place, (ROOT / name).read_text(encoding="utf-8"), in_nav=nav)
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        _add(files, config, f"notebooks/{path.stem}.md", page_of_notebook(path), in_nav=False)
    for path in sorted((DOCS / "figures").glob("*.json")):
        _add(files, config, f"figures/{path.stem}.html", page_of_figure(path), in_nav=False)
    for place in sorted(linked_files()):
        _add(files, config, f"{SOURCE}/{_page_name(place)}", page_of_source(place), in_nav=False)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of a page, as they are in the repository -> as they are on the site."""
    here = page.file.src_uri
    return typeset(rewritten(markdown, here)) if not here.startswith(f"{SOURCE}/") else markdown


def typeset(markdown: str) -> str:
    """Replace LaTeX between lines of $$ by MathML; code blocks stay as they are."""
    from latex2mathml.converter import convert

    def to_mathml(match: re.Match[str]) -> str:
        return f'<div class="formula">{convert(match[1], display="block")}</div>'

    ends = [0, *(end for code in CODE.finditer(markdown) for end in code.span()), len(markdown)]
    parts = [markdown[start:end] for start, end in pairwise(ends)]
    return "".join(part if index % 2 else MATH.sub(to_mathml, part) for index, part in enumerate(parts))


def _add(files: Files, config: Any, place: str, content: str, *, in_nav: bool) -> None:
    made = File.generated(config, place, content=content)
    made.inclusion = InclusionLevel.INCLUDED if in_nav else InclusionLevel.NOT_IN_NAV
    files.append(made)


def rewritten(markdown: str, here: str) -> str:
    """The text of the page `here` (its place on the site) with links to files of the repository led to their pages."""

    def led(found: re.Match[str]) -> str:
        target = resolved(found.group(2), here)
        if target is None:
            return found.group()
        way = posixpath.relpath(place_of(target), posixpath.dirname(here) or ".")
        return f"{found.group(1)}({way}{found.group(3) or ''})"

    return "".join(part if CODE.fullmatch(part) else LINK.sub(led, part) for part in _parts(markdown))


def _parts(markdown: str) -> Iterator[str]:
    """The text cut into blocks of code and what is between them."""
    at = 0
    for block in CODE.finditer(markdown):
        yield markdown[at : block.start()]
        yield block.group()
        at = block.end()
    yield markdown[at:]


def resolved(link: str, here: str) -> str | None:
    """A link of a page -> the file of the repository it names, from the root; None for addresses elsewhere."""
    if re.match(r"\w+:", link) or link.startswith("/"):
        return None
    home = next((name for name, place in OWN.items() if place == here), f"docs/{here}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(home), link))


def place_of(target: str) -> str:
    """A file of the repository, from the root -> its place on the site."""
    if target in OWN:
        return OWN[target]
    if target.startswith("docs/") and not target.endswith(".json"):
        return re.sub(r"^(notebooks/.*)\.ipynb$", r"\1.md", target.removeprefix("docs/"))
    return f"{SOURCE}/{_page_name(target)}"


def _page_name(target: str) -> str:
    return f"{target}/index.md" if (ROOT / target).is_dir() else f"{target}.md"


def linked_files() -> set[str]:
    """Files and folders outside docs/ that some page leads to, and the files of such folders."""
    pages = {place: ROOT / name for name, place in OWN.items()}
    pages |= {
        path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*.md") if not path.stem.endswith("_notes")
    }
    found: set[str] = set()
    for here, path in pages.items():
        text = path.read_text(encoding="utf-8")
        links = (link.group(2) for part in _parts(text) if not CODE.fullmatch(part) for link in LINK.finditer(part))
        found |= {target for link in links if (target := resolved(link, here)) and place_of(target).startswith(SOURCE)}
    there = {target for target in found if (ROOT / target).exists()}  # what is missing stays a broken link
    return there | {f"{target}/{name}" for target in there if (ROOT / target).is_dir() for name in _listing(target)}


def _listing(folder: str) -> list[str]:
    return sorted(path.name for path in (ROOT / folder).iterdir() if path.suffix in LANGUAGES and path.is_file())


def page_of_source(target: str) -> str:
    """A file as a page of highlighted code, a folder as a list of its files."""
    path = ROOT / target
    if path.is_dir():
        return "\n".join([f"# {target}", "", *(f"- [{name}]({name}.md)" for name in _listing(target))]) + "\n"
    text = path.read_text(encoding="utf-8")
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"^`+", text, re.MULTILINE)), default=0))
    return f"# {target}\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text}\n{fence}\n"


def page_of_notebook(path: Path) -> str:
    """The cells of a notebook, one below the other, and where the file is."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join([*parts, f"[The notebook itself]({path.name}), to be opened with Jupyter."]) + "\n"


def page_of_figure(path: Path) -> str:
    """The data of an inspection -> the explorer's page, made by the code of today."""
    from regard.inspection.html_bundle import bundle
    from regard.inspection.json_format import VERSION

    data = json.loads(path.read_text(encoding="utf-8"))
    told = {run.get("version") for run in data.get("runs", [data])}
    if told != {VERSION}:
        raise ValueError(
            f"{os.path.relpath(path, ROOT)}: data of version {told}; make it again: python bench/live_figures.py"
        )
    return bundle(data)
