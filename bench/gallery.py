"""Pictures for the gallery of the README: python bench/gallery.py RUNS [TASK…] writes docs/images/gallery_TASK.png.

RUNS has a run for each task, created by `regard demo TASK --out RUNS/TASK`; missing runs are skipped. If docs/figures
has the data of a page, no run is needed. Needs chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import site_hooks
from playwright.sync_api import Browser, sync_playwright
from screenshots import FLAGS

import regard

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 900, 560  # of a picture; longer views are cut, so that all pictures of the gallery have one shape


class Picture(NamedTuple):
    """The view of a picture, and its input: a file of docs/figures, a text, or "" for the first example of the task."""

    view: str
    source: str = ""


PICTURES = {
    "captioning": Picture("captions"),
    "classification": Picture("document", "levels.json"),
    "detection": Picture("boxes"),
    "embeddings": Picture("vectors"),
    "image_classification": Picture("overlay"),
    "image_generation": Picture("canvas"),
    "language": Picture("next_token&row=11", "next.json"),
    "masked_language": Picture("masked", "gap.json"),
    "music": Picture("pianoroll"),
    "recommendation": Picture("recommendation"),
    "tagging": Picture("entities"),
    "translation": Picture("alignment", "lineage.json"),
}


def shoot(browser: Browser, page: Path, view: str, target: Path) -> None:
    """Take a screenshot of the view of a page, without its surroundings."""
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=1.5, offline=True)
    tab = context.new_page()
    tab.goto(f"{page.as_uri()}#view={view}")
    tab.wait_for_selector("html[data-ready]")
    tab.locator("#view").evaluate("view => view.scrollIntoView()")
    tab.wait_for_timeout(300)
    tab.screenshot(path=target)
    context.close()
    print(f"wrote {target}", flush=True)


def page_of(task: str, runs: Path) -> str | None:
    """Return the page of a picture; None if its run is missing."""
    source = PICTURES[task].source
    if source.endswith(".json"):
        return site_hooks.page_of_figure(ROOT / "docs" / "figures" / source)
    if not (runs / task / "model.safetensors").exists():
        return None
    run = regard.load(runs / task)
    return run.look(source or next(example for example in run.task.examples if example)).page


def main(runs: str, *tasks: str) -> None:
    """Runs by task -> pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for task in [task for task in PICTURES if task in tasks or not tasks]:
            html, page = page_of(task, Path(runs)), Path(folder) / f"{task}.html"
            if html is None:
                print(f"left out {task}: no run {Path(runs) / task}", flush=True)
                continue
            page.write_text(html, encoding="utf-8")
            shoot(browser, page, PICTURES[task].view, ROOT / "docs" / "images" / f"gallery_{task}.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
