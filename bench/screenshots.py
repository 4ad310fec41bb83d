"""Pictures of the explorer for README and docs: python bench/screenshots.py [NAME…] writes docs/images/NAME.png.

The runs are the shipped ones (`regard list pretrained`), so the pictures show the current page with models that readers
can open. The picture of a run that is missing is left out. Needs chromium on PATH.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

import regard
from regard.core.errors import RegardError
from regard.data.images.image_files import encode_png
from regard.data.speech.audio_files import encode_wav
from regard.inspection.collect import collect
from regard.inspection.json_format import Inspection
from regard.inspection.report import InspectionReport, target_of

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
MIN_DIGITS = 4  # of a spoken string
MIN_WORDS = 5  # of a caption that names two objects
MAX_CANDIDATES = 60  # test examples among which one with a correct output is searched
GALLERY = (900, 560)  # pixels of all pictures of the gallery


def play(page: Page) -> None:
    """Start the animation of the canvas."""
    page.locator("[data-key='canvas:play']").click()
    page.wait_for_timeout(1500)


class Picture(NamedTuple):
    """A view of the page of a shipped run."""

    run: str
    view: str
    size: tuple[int, int] = (1280, 860)
    theme: Literal["light", "dark"] = "light"
    crop: Literal["window", "page", "view"] = "window"  # view: without the header and the side panel
    state: str = ""  # further parts of the address
    prepare: Callable[[Page], None] = lambda page: None


def gallery(run: str, view: str, state: str = "") -> Picture:
    """Return a picture of the gallery of the README."""
    return Picture(run, view, GALLERY, crop="view", state=state)


PICTURES = {
    "look": Picture("translation", "grid", (1280, 1180)),  # the map with its legend
    "look_dark": Picture("translation", "grid", (1280, 1180), "dark"),
    "alignment": Picture("translation", "alignment", (1280, 800)),
    "lines": Picture("translation", "lines", (1280, 720), "dark"),
    "steps": Picture("translation", "steps"),
    "phone": Picture("translation", "alignment", (390, 844), "dark"),
    "phone_heads": Picture("translation", "grid", (390, 844)),
    "text_entities": Picture("tagging", "entities", (1280, 720)),
    "text_vectors": Picture("embeddings", "vectors"),
    "overlay": Picture("image_classification", "overlay", crop="page"),
    "rollout": Picture("image_classification", "overlay", crop="page", state="&map=rollout"),
    "boxes": Picture("detection", "boxes", crop="page"),
    "canvas": Picture("image_generation", "canvas", crop="page", state="&row=45"),
    "playing": Picture("image_generation", "canvas", crop="page", state="&row=45", prepare=play),
    "caption_view": Picture("captioning", "captions", crop="page", state="&row=2"),
    "speech_view": Picture("speech_recognition", "speech", crop="page", state="&row=2"),
    "recommendation": Picture("recommendation", "recommendation", crop="page"),
    "gallery_translation": gallery("translation", "alignment"),
    "gallery_classification": gallery("classification", "document"),
    "gallery_tagging": gallery("tagging", "entities"),
    "gallery_embeddings": gallery("embeddings", "vectors"),
    "gallery_image_classification": gallery("image_classification", "overlay", "&map=rollout"),
    "gallery_detection": gallery("detection", "boxes"),
    "gallery_recommendation": gallery("recommendation", "recommendation"),
    "gallery_language": gallery("language", "next_token"),
    "gallery_masked_language": gallery("masked_language", "masked"),
}
OVERLAY = "caption_soft"  # the picture that `regard caption --out` writes
TEXTS = {"tagging": "Anna met Tom Baker in Paris in 2018."}


def shown_input(run: regard.Run, folder: Path) -> str:
    """Return the input of a run: one that it predicts correctly, so that its attention can be judged."""
    name, task = run.recipe.task.name, _any(run.task)
    if name == "translation":
        return sentence(run)
    if name == "speech_recognition":
        return str(recording(run, task, folder))
    if name in ("image_classification", "captioning", "detection", "image_generation"):
        return str(image_file(run, task, folder))
    return TEXTS.get(name) or next(example for example in task.examples if example)


def _any(value: object) -> Any:
    return value


def sentence(run: regard.Run) -> str:
    """Return the first longer test sentence that is translated as in the test data."""
    pairs = [pair for pair in _any(run.task).split("test") if 8 <= len(pair[0].split()) <= 11][:MAX_CANDIDATES]
    outputs = run.translate([pair[0] for pair in pairs])
    correct = [source for (source, target), best in zip(pairs, outputs, strict=True) if best == target]
    return correct[0] if correct else pairs[0][0]


def recording(run: regard.Run, task: Any, folder: Path) -> Path:
    """Write the first test string of several digits that is transcribed without error."""
    part, path = task.collection.split("test"), folder / "digits.wav"
    for index, text in enumerate(part.transcripts[:MAX_CANDIDATES]):
        if len(text.split()) >= MIN_DIGITS:
            path.write_bytes(encode_wav(part.waveform(index), task.config.sample_rate))
            if run.transcribe([str(path)]) == [text]:
                break
    return path


def image_file(run: regard.Run, task: Any, folder: Path) -> Path:
    """Write the first test image with a correct output; of tasks whose outputs are not compared, the first."""
    part = task.collection.split("test")
    files = []
    for index in range(min(MAX_CANDIDATES, len(part.indices) if hasattr(part, "indices") else len(part.pixels))):
        row = part.indices[index] if hasattr(part, "indices") else index
        files.append(folder / f"example{index}.png")
        files[-1].write_bytes(encode_png(part.pixels[row]))
        if is_correct(run, part, row, files[-1]):
            return files[-1].replace(folder / "example.png")
    return files[0].replace(folder / "example.png")


def is_correct(run: regard.Run, part: Any, row: int, file: Path) -> bool:
    """Return True if the output for an image is that of the data; of captions, those of two objects with colors."""
    if run.recipe.task.name == "captioning":
        caption = part.captions[row][0]
        is_colorful = len(caption.split()) > MIN_WORDS and "white" not in caption
        return is_colorful and run.predict([str(file)])[0][0].text in part.captions[row]
    if run.recipe.task.name == "detection":
        text = run.predict([str(file)])[0][0].text
        classes = [str(_any(run.task).classes[label]) for label in part.labels[row]]
        return len(classes) > 1 and all(text.count(name) == classes.count(name) for name in _any(run.task).classes)
    if run.recipe.task.name == "image_classification":
        return run.predict([str(file)])[0][0].text == str(part.labels[row])  # of the digits
    return True


def best_head(inspection: Inspection) -> str:
    """Return the head that aligns best, as a part of the page's address."""
    if inspection.truth is None:
        return ""
    heads = {(name, i): rate for name, rates in inspection.truth.rates.items() for i, rate in enumerate(rates["heads"])}
    name, head = min(heads, key=lambda key: heads[key])
    return f"&row=2&map={name}&head={head}"


@cache
def page_of(name: str, folder: Path) -> str:
    """Return the address of the page of a shipped run; empty if there is none."""
    try:
        run = regard.load(f"pretrained:{name}")
    except RegardError:
        return ""
    home = folder / name
    home.mkdir()
    inspection = collect(target_of(run), shown_input(run, home))
    # the time of a search says more about the machine than about the model
    inspection = replace(inspection, facts={key: value for key, value in inspection.facts.items() if key != "seconds"})
    InspectionReport(inspection).save(home / "page.html")
    return f"{(home / 'page.html').as_uri()}#view=VIEW{best_head(inspection) if name == 'translation' else ''}"


def shoot(browser: Browser, picture: Picture, address: str, target: Path) -> None:
    """Write one picture."""
    width, height = picture.size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=picture.theme,
        device_scale_factor=1.0 if picture.crop == "page" else 1.5,
        offline=True,
    )
    page = context.new_page()
    page.goto(address.replace("VIEW", picture.view) + picture.state)
    page.wait_for_selector("html[data-ready]")
    picture.prepare(page)
    page.wait_for_timeout(300)
    if picture.crop == "view":
        box = page.locator("#view").bounding_box()
        assert box is not None
        clip: Any = {**box, "height": min(box["height"], height)}
        page.screenshot(path=target, full_page=True, clip=clip)
    else:
        page.screenshot(path=target, full_page=picture.crop == "page")
    context.close()
    print(f"wrote {target}", flush=True)


def write_overlay(folder: Path, target: Path) -> None:
    """Write a test image once per word of its caption, with the attended region highlighted."""
    try:
        run = regard.load("pretrained:captioning")
    except RegardError:
        return print(f"left out {target.stem}: no pretrained:captioning", flush=True)
    caption = run.predict([shown_input(run, folder)])[0][0]
    target.write_bytes(caption.files[".png"]())
    print(f"wrote {target}: {caption.text}", flush=True)


def main(*names: str) -> None:
    """Write the pictures with these names, or all of them."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name in names or (OVERLAY, *PICTURES):
            if name == OVERLAY:
                write_overlay(Path(folder), IMAGES / f"{OVERLAY}.png")
                continue
            address = page_of(PICTURES[name].run, Path(folder))
            if address:
                shoot(browser, PICTURES[name], address, IMAGES / f"{name}.png")
            else:
                print(f"left out {name}: no pretrained:{PICTURES[name].run}", flush=True)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
