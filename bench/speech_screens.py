"""Pictures for docs/speech.md: python bench/speech_screens.py RUN [FOLDER]. Needs chromium.

RUN is a run of recipes/spoken_digits_las.toml.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from screenshots import FLAGS

import regard
from regard.data.speech.audio_files import encode_wav

NUM_DIGITS = 5  # of the string that is shown


def example(run: regard.Run, folder: Path) -> Path:
    """Write the first test string of five digits that the run transcribes without error."""
    task: Any = run.task
    part = task.collection.split("test")
    path = folder / "digits.wav"
    for index, text in enumerate(part.transcripts):
        if len(text.split()) == NUM_DIGITS:
            path.write_bytes(encode_wav(part.waveform(index), task.config.sample_rate))
            if run.transcribe([str(path)]) == [text]:
                break
    return path


def main(run_folder: str, target: str = "docs/images") -> None:
    run = regard.load(run_folder)
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        path = example(run, Path(temporary))
        page_file = Path(temporary) / "page.html"
        run.look(str(path), n=3).save(page_file)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_context(viewport={"width": 1100, "height": 860}, offline=True).new_page()
        page.goto(f"{page_file.as_uri()}#view=speech&row=2")
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(300)
        page.screenshot(path=Path(target) / "speech_view.png", full_page=True)
        browser.close()
        print(f"wrote {target}/speech_view.png", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
