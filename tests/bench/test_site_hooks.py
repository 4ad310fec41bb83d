"""The documentation site: no warnings, no requests to other addresses, working live figures."""

from __future__ import annotations

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urljoin

import pytest

pytest.importorskip("mkdocs", reason="the extra docs is not installed")

import site_hooks
from browser import opened

ROOT = Path(__file__).parents[2]
ADDRESS = re.compile(
    r'<(?:script|img|iframe|source)[^>]+src="?(?:https?:)?//|<link[^>]+stylesheet[^>]+href="?https?:|url\(["\']?https?:'
)


def build(config, target):
    """Run mkdocs in another process. With --quiet, warnings are not counted, and --strict has no effect."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(target)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    ended = build(ROOT / "mkdocs.yml", target)
    assert ended.returncode == 0, ended.stderr
    return target


def test_it_is_built_and_asks_nothing_of_other_addresses(built):
    pages = list(built.rglob("*.html"))
    assert len(pages) > 60 and {"index.html", "contributing.html", "api.html"} <= {page.name for page in pages}
    outside = [str(page.relative_to(built)) for page in pages if ADDRESS.search(page.read_text(encoding="utf-8"))]
    assert outside == []
    sheets = [sheet for sheet in built.rglob("*.css") if ADDRESS.search(sheet.read_text(encoding="utf-8"))]
    assert sheets == []


def test_every_public_name_is_on_the_page_of_the_api(built):
    import regard

    text = (built / "api.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h3 id=\"[^\"]+\">([\w.]+)<", text)
    assert [name for name in sorted(regard._HOMES) if f"regard.{name}" not in headings] == []


def test_broken_links_fail(tmp_path):
    (tmp_path / "docs").mkdir()
    links = "[x](nothing.md) [x](../src/nothing.py) [x](#nothing)"
    (tmp_path / "docs" / "index.md").write_text(f"# Page\n\n{links}\n", encoding="utf-8")
    (tmp_path / "docs" / "other.md").write_text("# Not in the list\n", encoding="utf-8")
    hooks = ROOT / "bench" / "site_hooks.py"
    rest = [f"docs_dir: {tmp_path / 'docs'}", f"hooks: [{hooks}]", "plugins: []", "nav: [index.md]", "extra_css: []"]
    config = tmp_path / "mkdocs.yml"
    config.write_text("\n".join([f"INHERIT: {ROOT / 'mkdocs.yml'}", *rest]) + "\n", encoding="utf-8")
    ended = build(config, tmp_path / "site")
    warnings = [line for line in ended.stderr.splitlines() if "'index.md'" in line or "other.md" in line]
    assert ended.returncode != 0
    for text in ("nothing.md", "source/src/nothing.py.md", "#nothing", "other.md"):
        assert any(text in line for line in warnings), ended.stderr


@pytest.fixture(scope="module")
def address(built):
    """The site on a free port."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def framed():
    """Yield pages with a live figure, and its address."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for source in re.findall(r'<iframe class="figure"[^>]* src="([^"]+)"', page.read_text(encoding="utf-8")):
            yield page.relative_to(ROOT / "docs").with_suffix(".html").as_posix(), source


@pytest.mark.parametrize(("page", "source"), list(framed()))
def test_a_live_figure_draws_what_its_page_says(page, source, built, address, browser):
    expected = dict(part.split("=") for part in source.partition("#")[2].split("&"))
    path, _, fragment = source.partition("#")
    with opened(browser, urljoin(f"{address}/{page}", path), fragment=f"#{fragment}", offline=False) as tab:
        assert tab.get_attribute("#view", "class").split() == ["view", f"view-{expected['view']}"]
        assert tab.locator("#view").inner_text().strip() or tab.locator("#view canvas, #view svg").count()
        assert tab.locator(".wrong, .no-map").count() == 0
        assert "map" not in expected or f"map={expected['map']}" in tab.url


def test_no_page_with_a_figure_scrolls_by_itself(address, browser):
    """Pages are opened alternately in both languages, with the figures loaded."""
    for index, page in enumerate(sorted({page for page, _ in framed()})):
        context = browser.new_context(locale=("en-US", "ko-KR")[index % 2])
        tab, errors = context.new_page(), []
        tab.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        tab.goto(f"{address}/{page}")
        tab.evaluate("document.querySelectorAll('iframe').forEach((frame) => { frame.loading = 'eager'; })")
        for frame in tab.locator("iframe.figure").all():
            frame.content_frame.locator("html[data-ready]").wait_for()
        assert tab.evaluate("window.scrollY") == 0, page
        assert errors == []
        context.close()


def test_a_reader_changes_the_input_of_a_live_figure(address, browser):
    with opened(browser, f"{address}/live/translation.html", offline=False) as tab:
        before = tab.locator(".spoken.output").inner_text()
        tab.fill('[data-key="ask"]', "My child will laugh.")
        tab.keyboard.press("Enter")
        tab.wait_for_function("before => document.querySelector('.spoken.output')?.innerText !== before", arg=before)
        assert "My child will laugh." in tab.locator(".spoken.input").inner_text()


def test_links_to_files_of_the_repository_lead_to_their_pages():
    text = "[a](../src/regard/cli/main.py) [b](look.md#what-if) [c](../CONTRIBUTING.md#add-a-score) ![d](x.png)\n"
    code = "```python\n[a](../src/x.py)\n```\n"
    assert site_hooks.rewrite_links(text + code, "text.md") == (
        "[a](source/src/regard/cli/main.py.md) [b](look.md#what-if) [c](contributing.md#add-a-score) ![d](x.png)\n"
        + code
    )
    assert site_hooks.rewrite_links("[a](docs/look.md)", "contributing.md") == "[a](look.md)"
    assert site_hooks.rewrite_links("[a](../../src/regard/attention/scores)", "mechanisms/scores.md") == (
        "[a](../source/src/regard/attention/scores/index.md)"
    )
    assert site_hooks.rewrite_links("[n](formula.ipynb) <https://x.org>", "notebooks/index.md") == (
        "[n](formula.md) <https://x.org>"
    )


def test_formulas_become_mathml():
    page = "Text.\n\n$$\n\\sum_j \\alpha_j v_j\n$$\n\n```text\n$$\nx\n$$\n```\n"
    typeset = site_hooks.typeset(page)
    assert '<div class="formula"><math' in typeset and "<msub>" in typeset
    assert typeset.endswith("```text\n$$\nx\n$$\n```\n")


def test_every_measured_link_leads_to_its_claim():
    names = set(re.findall(r"^## (.*)$", (ROOT / "docs" / "claims.md").read_text(encoding="utf-8"), re.MULTILINE))
    for path in sorted((ROOT / "docs" / "mechanisms").glob("*.md")):
        links = re.findall(r"\]\(\.\./claims\.md(#[a-z-]+)?\)", path.read_text(encoding="utf-8"))
        assert all(link.removeprefix("#") in names for link in links), path.name


PAPER = re.compile(r"\]\(https://(?:arxiv\.org/abs|doi\.org|aclanthology\.org)/\S+\)")
CODE_OR_TABLE = re.compile(r"^```.*?^```$|^\$\$.*?^\$\$$|^\|.*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def test_mechanism_pages_link_papers_and_typeset_their_formulas():
    for path in sorted((ROOT / "docs" / "mechanisms").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        assert PAPER.search(text), f"{path.name} links no paper"
        plain = CODE_OR_TABLE.sub("", text)
        assert not re.search(r"ᵀ|\b[A-Za-z]_[{\w]|^ {4}\S.* = ", plain, re.MULTILINE), (
            f"{path.name}: a formula is not typeset"
        )
        for formula in re.findall(r"^\$\$\n.*?^\$\$$", text, re.MULTILINE | re.DOTALL):
            assert "<math" in site_hooks.typeset(f"\n\n{formula}\n"), formula


def test_a_file_with_fences_is_shown_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(site_hooks, "ROOT", tmp_path)
    (tmp_path / "a.md").write_text("# A\n\n```python\nx = 1\n```\n", encoding="utf-8")
    page = site_hooks.page_of_source("a.md")
    assert page.count("\n````") == 2 and "```python\nx = 1\n```" in page
