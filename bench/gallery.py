"""Pictures for the gallery of the README: python bench/gallery.py RUNS [TASK…] writes docs/images/gallery_TASK.png.

RUNS has a run for each task, made by `regard demo TASK --out RUNS/TASK`; what is missing is left out. Where
docs/figures has the data of a page, no run is needed. Needs chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import site_hooks
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from screenshots import FLAGS

import regard

ROOT = Path(__file__).resolve().parents[1]


class Picture(NamedTuple):
    """What is given to the run of a task, or the file of docs/figures, and the view that is shown."""

    given: str
    view: str


PICTURES = {
    "classification": Picture("levels.json", "document"),
    "translation": Picture("lineage.json", "alignment"),
    "language": Picture("next.json", "next_token&row=11"),
    "masked_language": Picture("gap.json", "masked"),
}

CROPPED = {  # parts (left, upper, right, lower) of pictures that other scripts of this folder have made
    "tagging": ("text_entities.png", (20, 255, 1260, 730)),
    "embeddings": ("text_vectors.png", (20, 290, 1260, 900)),
    "image_classification": ("overlay.png", (20, 310, 1260, 900)),
    "detection": ("boxes.png", (20, 320, 1260, 820)),
    "recommendation": ("recommendation.png", (20, 225, 1260, 780)),
}


def shoot(browser: Browser, page: Path, view: str, target: Path) -> None:
    """The view of a page, without what is around it."""
    context = browser.new_context(viewport={"width": 900, "height": 700}, device_scale_factor=1.5, offline=True)
    tab = context.new_page()
    tab.goto(f"{page.as_uri()}#view={view}")
    tab.wait_for_selector("html[data-ready]")
    tab.wait_for_timeout(300)
    tab.locator("#view").screenshot(path=target)
    context.close()
    print(f"wrote {target}", flush=True)


def main(runs: str, *tasks: str) -> None:
    """Runs by task -> pictures."""
    images = ROOT / "docs" / "images"
    for task, (name, box) in CROPPED.items():
        if task in tasks or not tasks:
            Image.open(images / name).crop(box).convert("P", palette=Image.Palette.ADAPTIVE).save(
                images / f"gallery_{task}.png", optimize=True
            )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for task in [task for task in PICTURES if task in tasks or not tasks]:
            source, page = PICTURES[task].given, Path(folder) / f"{task}.html"
            if source.endswith(".json"):
                page.write_text(site_hooks.page_of_figure(ROOT / "docs" / "figures" / source), encoding="utf-8")
            elif (Path(runs) / task / "model.safetensors").exists():
                regard.load(Path(runs) / task).look(source).save(page)
            else:
                continue
            shoot(browser, page, PICTURES[task].view, images / f"gallery_{task}.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
