"""Screenshots of the opening view of every task, at two widths, in both themes and languages.

    python bench/explorer_screens.py FOLDER [RUN …]     # needs chromium on PATH and Pillow

Without RUN: the shipped run of each task, and for a task without one the small run of its test. Writes
FOLDER/TASK-WIDTH-THEME-LANGUAGE.png for each run and FOLDER/TASK.png with all of them, and prints a line for every page
that scrolls sideways or by itself.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import regard
from regard.core.registry import registered_names

ROOT = Path(__file__).resolve().parents[1]
SHIPPED, SMALL = ROOT / "src/regard/data/pretrained", ROOT / "tests/training/runs_v6"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SIZES = ((1440, 900), (390, 844))
THEMES = ("light", "dark")
LANGUAGES = ("en-US", "ko-KR")
SHEET_HEIGHT = 450  # pixels of a screenshot on a sheet


def available_runs() -> list[Path]:
    """Return the folder of one run of each task, shipped ones first."""
    runs = {}
    for folder in sorted([*SHIPPED.iterdir(), *SMALL.iterdir()], key=lambda path: (path.parent != SHIPPED, path.name)):
        if (folder / "model.safetensors").exists():
            runs.setdefault(regard.load(folder).recipe.task.name, folder)
    for name in sorted(set(registered_names("regard.tasks")) - set(runs)):
        print(f"left out {name}: no run")
    return list(runs.values())


def first_input(run: regard.Run) -> object:
    """Return the first example of the task."""
    return next((example for example in run.task.examples if example), "")


def shoot(browser: Browser, address: str, name: str, folder: Path) -> list[Path]:
    """Write all screenshots of one page."""
    files = []
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
        if page.evaluate("window.scrollY") != 0:
            print(f"{name}: scrolls by itself at {width} pixels")
        files.append(folder / f"{name}-{width}-{theme}-{locale[:2]}.png")
        page.screenshot(path=files[-1])
        context.close()
    return files


def write_sheet(files: list[Path], path: Path) -> None:
    """Write screenshots of one page as one picture: a row for each width."""
    images = [Image.open(file) for file in files]
    scaled = [image.resize((image.width * SHEET_HEIGHT // image.height, SHEET_HEIGHT)) for image in images]
    rows = [scaled[: len(scaled) // 2], scaled[len(scaled) // 2 :]]
    width = max(sum(image.width + 8 for image in row) for row in rows)
    sheet = Image.new("RGB", (width, len(rows) * (SHEET_HEIGHT + 8)), "#888")
    for y, row in enumerate(rows):
        x = 0
        for image in row:
            sheet.paste(image, (x, y * (SHEET_HEIGHT + 8)))
            x += image.width + 8
    sheet.save(path)


def main() -> None:
    """Take all screenshots."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    runs = [Path(path) for path in sys.argv[2:]] or available_runs()
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for path in runs:
            run = regard.load(path)
            name, page = run.recipe.task.name, Path(scratch) / "page.html"
            run.look(first_input(run)).save(page)
            write_sheet(shoot(browser, page.as_uri(), name, folder), folder / f"{name}.png")
            print(f"{name}: {page.stat().st_size / 1e6:.1f} MB", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
