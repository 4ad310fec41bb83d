"""Screenshots of the explorer for the README: python bench/screenshots.py RUN [FOLDER]. Needs chromium on PATH."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import regard
from regard.inspection.collect import collect
from regard.inspection.json_format import Inspection
from regard.inspection.report import InspectionReport, target_of

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
# name, view, theme, width, height
SHOTS = (
    ("look", "grid", "light", 1280, 1180),  # the map with its legend
    ("alignment", "alignment", "light", 1280, 800),
    ("lines", "lines", "dark", 1280, 720),
    ("steps", "steps", "light", 1280, 860),
    ("look_dark", "grid", "dark", 1280, 1180),
    ("phone", "alignment", "dark", 390, 844),
    ("phone_heads", "grid", "light", 390, 844),
)


def sentence(loaded: regard.Run) -> str:
    """Return the first longer test sentence with a correct translation, so that its alignment can be judged."""
    pairs = [pair for pair in loaded.task.split("test") if 8 <= len(pair[0].split()) <= 11]
    outputs = loaded.translate([pair[0] for pair in pairs[:60]])
    for (source, target), best in zip(pairs, outputs, strict=False):
        if best == target:
            return source
    return pairs[0][0]


def best_head(inspection: Inspection) -> str:
    """Return the head with the lowest alignment error, as a part of the page's address."""
    if inspection.truth is None:
        return ""
    heads = {(name, i): rate for name, rates in inspection.truth.rates.items() for i, rate in enumerate(rates["heads"])}
    name, head = min(heads, key=lambda key: heads[key])
    return f"&map={name}&head={head}"


def shoot(browser: Browser, address: str, folder: Path) -> None:
    """Take all screenshots."""
    for name, view, theme, width, height in SHOTS:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=1.5, offline=True
        )
        page = context.new_page()
        page.goto(address.replace("VIEW", view))
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(300)
        page.screenshot(path=folder / f"{name}.png")
        print(f"wrote {folder / name}.png")
        context.close()


def main(run: str, folder: str = "docs/images") -> None:
    """A run -> its pictures."""
    loaded = regard.load(run)
    if loaded.recipe.decoding and loaded.recipe.decoding.name == "greedy":
        loaded = regard.load(run, ["decoding=beam"])
    inspection = collect(target_of(loaded), sentence(loaded))
    # How long the search took says more of the machine and its load than of the model.
    inspection = replace(inspection, facts={name: fact for name, fact in inspection.facts.items() if name != "seconds"})
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as driver:
        page_file = Path(temporary) / "page.html"
        InspectionReport(inspection).save(page_file)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        shoot(browser, f"{page_file.as_uri()}#view=VIEW&row=2{best_head(inspection)}", Path(folder))
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
