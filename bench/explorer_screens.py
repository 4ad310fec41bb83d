"""Screenshots of the opening view of runs, at two widths, in both themes and languages.

    python bench/explorer_screens.py FOLDER RUN [RUN …]     # needs chromium on PATH

Writes FOLDER/TASK-WIDTH-THEME-LANGUAGE.png for each run, and prints a line for every page that scrolls sideways.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import regard

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SIZES = ((1440, 900), (390, 844))
THEMES = ("light", "dark")
LANGUAGES = ("en-US", "ko-KR")


def first_input(run: regard.Run) -> object:
    """Return the first example of the task."""
    return next((example for example in run.task.examples if example), "")


def shoot(browser: Browser, address: str, name: str, folder: Path) -> None:
    """Take all screenshots of one page."""
    for (width, height), theme, locale in itertools.product(SIZES, THEMES, LANGUAGES):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, locale=locale, offline=True
        )
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(200)
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            print(f"{name}: scrolls sideways at {width} pixels")
        page.screenshot(path=folder / f"{name}-{width}-{theme}-{locale[:2]}.png")
        context.close()


def main() -> None:
    """Take all screenshots."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for path in sys.argv[2:]:
            run = regard.load(path)
            page = Path(scratch) / "page.html"
            run.look(first_input(run)).save(page)
            shoot(browser, page.as_uri(), run.recipe.task.name, folder)
            print(f"{run.recipe.task.name}: {page.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
