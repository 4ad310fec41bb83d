"""Screenshots of the views of images for docs/images.md: python bench/image_screens.py RUNS [FOLDER]. Needs chromium.

RUNS has the runs of recipes digits_images, digits_upscale, digits_vit and scenes_detr; what is missing is left out.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, sync_playwright
from screenshots import FLAGS

import regard
from regard.data.images.reading import png


class Shot(NamedTuple):
    """A picture: of which run, in which view, at which place of the page's address."""

    name: str
    run: str
    view: str
    state: str
    split: str = "test"


SHOTS = (
    Shot("canvas", "digits_images", "canvas", "&row=45"),
    Shot("upscale", "digits_upscale", "canvas", "&row=45"),
    Shot("overlay", "digits_vit", "overlay", ""),
    Shot("boxes", "scenes_detr", "boxes", "&row=0"),
)


def example(task: Any, split: str, folder: Path) -> Path:
    """The first image of a split as a file."""
    part = task.collection.split(split)
    path = folder / "example.png"
    path.write_bytes(png(part.pixels[part.rows[0]] if hasattr(part, "rows") else part.pixels[0]))
    return path


def surest(page: Any) -> None:
    """Of boxes, the first of the list, which is the surest query."""
    page.locator(".shares button").first.focus()


def shoot(browser: Browser, shot: Shot, run: regard.Run, folder: Path, *, made: Path) -> None:
    """One picture."""
    page_file = made / "page.html"
    run.look(str(example(run.task, shot.split, made))).save(page_file)
    context = browser.new_context(viewport={"width": 1280, "height": 860}, device_scale_factor=1.0, offline=True)
    page = context.new_page()
    page.goto(f"{page_file.as_uri()}#view={shot.view}{shot.state if shot.view == 'canvas' else ''}")
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector(".picture")
    if shot.view == "boxes":
        surest(page)
    page.wait_for_timeout(400)
    page.screenshot(path=folder / f"{shot.name}.png", full_page=True)
    print(f"wrote {folder / shot.name}.png", flush=True)
    context.close()


def main(runs: str, folder: str = "docs/images") -> None:
    """Runs -> pictures of their views."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for shot in SHOTS:
            if (Path(runs) / shot.run / "model.safetensors").exists():
                shoot(browser, shot, regard.load(Path(runs) / shot.run), Path(folder), made=Path(made))
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
