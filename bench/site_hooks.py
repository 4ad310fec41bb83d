"""Hooks of mkdocs.yml that add pages to the site. `mkdocs build` runs them; nothing is downloaded.

- CONTRIBUTING.md, CHANGELOG.md and the READMEs are pages of their own.
- A link to a file of the repository becomes a link to a page with this file, so that the site is complete.
- Formulas between lines of $$ become MathML, which browsers draw without a script.
- Notebooks in docs/notebooks become pages.
- A link to live/NAME.html becomes the page of the shipped run NAME, which runs its model in the browser.
  live/lineage.html shows one sentence in three of them.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
REPOSITORY_PAGES = {  # file of the repository -> path on the site
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "readme.md",
    "README.ko.md": "readme.ko.md",
}
SOURCE = "source"  # the folder of the site for files of the repository
LIVE, COMPARISON = "live", "lineage"  # the folder of the site for pages of models, and the page that compares three
COMPARED = ("translation-bahdanau", "translation-luong", "translation")
CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")
MATH = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".js": "javascript", ".md": "markdown"}


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for name, site_path in REPOSITORY_PAGES.items():
        nav = site_path in str(config["nav"])
        _add(files, config, site_path, (ROOT / name).read_text(encoding="utf-8"), in_nav=nav)
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        _add(files, config, f"notebooks/{path.stem}.md", page_of_notebook(path), in_nav=False)
    for name in sorted(live_pages()):
        content = page_of_comparison() if name == COMPARISON else page_of_run(name)
        _add(files, config, f"{LIVE}/{name}.html", content, in_nav=False)
    for target in sorted(linked_files()):
        _add(files, config, f"{SOURCE}/{_page_name(target)}", page_of_source(target), in_nav=False)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the links of a page to files of the repository by links to pages of the site, and typeset formulas."""
    here = page.file.src_uri
    return typeset(rewrite_links(markdown, here)) if not here.startswith(f"{SOURCE}/") else markdown


def typeset(markdown: str) -> str:
    """Replace LaTeX between lines of $$ by MathML, except in code blocks."""
    from latex2mathml.converter import convert

    def to_mathml(match: re.Match[str]) -> str:
        return f'<div class="formula">{convert(match[1], display="block")}</div>'

    ends = [0, *(end for code in CODE.finditer(markdown) for end in code.span()), len(markdown)]
    parts = [markdown[start:end] for start, end in pairwise(ends)]
    return "".join(part if index % 2 else MATH.sub(to_mathml, part) for index, part in enumerate(parts))


def _add(files: Files, config: Any, site_path: str, content: str, *, in_nav: bool) -> None:
    page = File.generated(config, site_path, content=content)
    page.inclusion = InclusionLevel.INCLUDED if in_nav else InclusionLevel.NOT_IN_NAV
    files.append(page)


def rewrite_links(markdown: str, here: str) -> str:
    """Return the text of the page with the site path `here`, with links to files of the repository rewritten."""

    def to_page(link: re.Match[str]) -> str:
        target = resolve_link(link.group(2), here)
        if target is None:
            return link.group()
        path = posixpath.relpath(site_path_of(target), posixpath.dirname(here) or ".")
        return f"{link.group(1)}({path}{link.group(3) or ''})"

    return "".join(part if CODE.fullmatch(part) else LINK.sub(to_page, part) for part in _parts(markdown))


def _parts(markdown: str) -> Iterator[str]:
    """Split the text into code blocks and the parts between them."""
    end = 0
    for block in CODE.finditer(markdown):
        yield markdown[end : block.start()]
        yield block.group()
        end = block.end()
    yield markdown[end:]


def resolve_link(link: str, here: str) -> str | None:
    """Link of a page -> path of the linked file from the root of the repository; None for other addresses."""
    if re.match(r"\w+:", link) or link.startswith("/"):
        return None
    home = next((name for name, site_path in REPOSITORY_PAGES.items() if site_path == here), f"docs/{here}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(home), link))


def site_path_of(target: str) -> str:
    """Path of a file from the root of the repository -> path of its page on the site."""
    if target in REPOSITORY_PAGES:
        return REPOSITORY_PAGES[target]
    if target.startswith("docs/") and not target.endswith(".json"):
        return re.sub(r"^(notebooks/.*)\.ipynb$", r"\1.md", target.removeprefix("docs/"))
    return f"{SOURCE}/{_page_name(target)}"


def _page_name(target: str) -> str:
    return f"{target}/index.md" if (ROOT / target).is_dir() else f"{target}.md"


def linked_files() -> set[str]:
    """Return the files and folders outside docs/ to which a page links, and the files of these folders."""
    pages = {site_path: ROOT / name for name, site_path in REPOSITORY_PAGES.items()}
    pages |= {
        path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*.md") if not path.stem.endswith("_notes")
    }
    targets: set[str] = set()
    for here, path in pages.items():
        text = path.read_text(encoding="utf-8")
        links = (link.group(2) for part in _parts(text) if not CODE.fullmatch(part) for link in LINK.finditer(part))
        targets |= {
            target for link in links if (target := resolve_link(link, here)) and site_path_of(target).startswith(SOURCE)
        }
    existing = {target for target in targets if (ROOT / target).exists()}  # a link to a missing file stays broken
    folders = [target for target in existing if (ROOT / target).is_dir()]
    return existing | {f"{folder}/{name}" for folder in folders for name in _listing(folder)}


def _listing(folder: str) -> list[str]:
    return sorted(path.name for path in (ROOT / folder).iterdir() if path.suffix in LANGUAGES and path.is_file())


def page_of_source(target: str) -> str:
    """Return a page with the highlighted code of a file, or with the list of files of a folder."""
    path = ROOT / target
    if path.is_dir():
        return "\n".join([f"# {target}", "", *(f"- [{name}]({name}.md)" for name in _listing(target))]) + "\n"
    text = path.read_text(encoding="utf-8")
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"^`+", text, re.MULTILINE)), default=0))
    return f"# {target}\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text}\n{fence}\n"


def page_of_notebook(path: Path) -> str:
    """Return a page with the cells of a notebook and a link to the file."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join([*parts, f"[The notebook itself]({path.name}), to be opened with Jupyter."]) + "\n"


def live_pages() -> set[str]:
    """Return the names of the live pages in frames or links of the documentation."""
    pattern = re.compile(rf"""["(/]{LIVE}/([\w-]+)\.html""")
    pages = (path for path in DOCS.rglob("*.md") if not path.stem.endswith("_notes"))
    return {name for path in pages for name in pattern.findall(path.read_text(encoding="utf-8"))}


def page_of_run(name: str) -> str:
    """Return the page that runs the model of a shipped run in the browser."""
    from regard.convert.web.export_page import page
    from regard.core.pretrained_runs import PREFIX
    from regard.training.load_run import load_run

    return page(load_run(f"{PREFIX}{name}"))


def page_of_comparison() -> str:
    """Return the explorer page of one sentence in the shipped translators of COMPARED."""
    import regard
    from regard.core.pretrained_runs import PREFIX
    from regard.inspection.compare import to_page
    from regard.inspection.html_bundle import bundle

    runs = [regard.load(f"{PREFIX}{name}") for name in COMPARED]
    sentence = runs[0].task.examples[0]
    return bundle(to_page([run.look(sentence).inspection for run in runs]))
