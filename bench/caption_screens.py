"""Pictures for docs/captioning.md: python bench/caption_screens.py RUNS [FOLDER]. Needs chromium.

RUNS has the runs of recipes scenes_caption_soft, _hard, _none and _ko; missing runs are skipped.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright
from screenshots import FLAGS

import regard
from regard.data.images.image_files import encode_png
from regard.inspection import compare
from regard.inspection.collect import inspect
from regard.inspection.html_bundle import bundle
from regard.inspection.report import target_of

SIDES = ("soft", "hard", "none")
LONGEST = 3  # things of a scene that is shown


def example(run: regard.Run, folder: Path) -> Path:
    """Return the first test scene of three objects with a correct caption, so that its attention can be judged."""
    task: Any = run.task
    part = task.collection.split("test")
    rows = [row for row, texts in enumerate(part.captions) if len(texts[0].split()) > 4 * LONGEST - 2][:60]
    captions = task.best_captions(run.model, part.images(np.array(rows)), run.recipe.decoding)
    right = [row for row, text in zip(rows, captions, strict=True) if text in part.captions[row]]
    path = folder / "example.png"
    path.write_bytes(encode_png(part.images(np.array([*right, rows[0]]))[0]))
    return path


def opened(browser: Browser, page_file: Path, state: str, *, width: int) -> Page:
    """Open the page with a fragment of its address."""
    page = browser.new_context(viewport={"width": width, "height": 860}, offline=True).new_page()
    page.goto(f"{page_file.as_uri()}#view=captions{state}")
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector(".caption-card canvas")
    return page


def shoot(browser: Browser, runs: dict[str, regard.Run], folder: Path, temporary: Path) -> None:
    """Draw the view of one run with a selected word, the what-if with a hidden region, and two runs next to each
    other.
    """
    image = str(example(runs["soft"], temporary))
    page_file = temporary / "page.html"
    runs["soft"].look(image).save(page_file)
    page = opened(browser, page_file, "&row=3", width=1000)
    page.locator("[data-key^='grey:']").focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    page.screenshot(path=folder / "caption_view.png", full_page=True)
    sides = [name for name in SIDES if name in runs]
    if len(sides) > 1:
        inspections = [inspect(target_of(runs[name], name=name), image) for name in sides]
        page_file.write_text(bundle(compare.to_page(inspections)), encoding="utf-8")
        page = opened(browser, page_file, "&row=3", width=1280)
        page.wait_for_timeout(300)
        page.screenshot(path=folder / "caption_compare.png", full_page=True)


def main(runs_folder: str, folder: str = "docs/images") -> None:
    """Runs -> overlays for each word, and pictures of the view."""
    target = Path(folder)
    paths = {name: Path(runs_folder) / f"scenes_caption_{name}" for name in (*SIDES, "ko")}
    runs = {name: regard.load(path) for name, path in paths.items() if (path / "model.safetensors").exists()}
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as driver:
        for name, run in runs.items():
            image = str(example(run if name == "ko" else runs["soft"], Path(temporary)))
            answer = run.predict([image])[0][0]
            if ".png" in answer.files and name != "none":
                (target / f"caption_{name}.png").write_bytes(answer.files[".png"]())
                print(f"wrote {target}/caption_{name}.png: {answer.text}", flush=True)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        shoot(browser, runs, target, Path(temporary))
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
