"""Screenshots of the views of images for docs/images.md: python bench/image_screens.py RUNS [FOLDER [THEME]].

RUNS has the runs of recipes digits_images, digits_upscale, digits_vit and scenes_detr; missing runs are skipped.
THEME is light or dark. Needs chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright
from screenshots import FLAGS

import regard
from regard.data.images.image_files import encode_png


class Shot(NamedTuple):
    """A picture: its run, its view, the fragment of the page's address, and the actions before it is taken."""

    name: str
    run: str
    view: str
    state: str = ""
    does: Callable[[Page], None] = lambda page: None


def play(page: Page) -> None:
    """Play the generation order for a while; it takes eight seconds in all."""
    page.locator("[data-key='canvas:play']").click()
    page.wait_for_timeout(1500)


def surest(page: Page) -> None:
    """Select the first box of the list, which has the highest score."""
    page.locator(".shares button").first.focus()


SHOTS = (
    Shot("canvas", "digits_images", "canvas", "&row=45"),
    Shot("playing", "digits_images", "canvas", "&row=45", play),
    Shot("upscale", "digits_upscale", "canvas", "&row=45"),
    Shot("overlay", "digits_vit", "overlay"),
    Shot("rollout", "digits_vit", "overlay", "&map=rollout"),
    Shot("boxes", "scenes_detr", "boxes", does=surest),
)


def example(task: Any, folder: Path) -> Path:
    """Return the first image of the test data as a file."""
    part = task.collection.split("test")
    path = folder / "example.png"
    path.write_bytes(encode_png(part.pixels[part.indices[0]] if hasattr(part, "indices") else part.pixels[0]))
    return path


def shoot(browser: Browser, shot: Shot, address: str, *, target: Path, theme: Any) -> None:
    """Take one picture."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 860}, color_scheme=theme, device_scale_factor=1.0, offline=True
    )
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{address}#view={shot.view}{shot.state}")
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector(".picture")
    shot.does(page)
    page.wait_for_timeout(400)
    page.screenshot(path=target, full_page=True)
    print(f"wrote {target}", *errors, flush=True)
    context.close()


def main(runs: str, folder: str = "docs/images", theme: str = "light") -> None:
    """Runs -> pictures of their views."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for shot in SHOTS:
            if not (Path(runs) / shot.run / "model.safetensors").exists():
                continue
            page_file = Path(temporary) / f"{shot.run}.html"
            if not page_file.exists():
                run = regard.load(Path(runs) / shot.run)
                run.look(str(example(run.task, Path(temporary)))).save(page_file)
            shoot(browser, shot, page_file.as_uri(), target=Path(folder) / f"{shot.name}.png", theme=theme)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
