"""Compare exported pages with Python on test inputs in Chromium, and write the figures into docs/web.md.

    python bench/web.py RUN … [--inputs 200] [--write]

Each input is inspected by Python and by the engine of the page: outputs, log probabilities of tokens, axes and maps.
Times are of the engine in Chromium with the machine as loaded as it was, without the first input, which compiles the
scripts.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from playwright.sync_api import sync_playwright

from regard.convert.web.equality import Difference, compare
from regard.convert.web.export_page import SCRIPTS, page
from regard.convert.web.model_file import model_file
from regard.data.images.image_files import encode_png
from regard.data.speech.audio_files import encode_wav
from regard.data.text import plain_text
from regard.inspection.collect import inspect_quickly
from regard.inspection.html_bundle import standalone_script
from regard.inspection.report import target_of
from regard.tasks.music.task import to_midi
from regard.training.load_run import LoadedRun, load_run

DOCS = Path(__file__).parents[1] / "docs" / "web.md"
TABLE = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- end -->)", re.DOTALL)
CHROMIUM = "/usr/bin/chromium"
HEADER = (
    "| Run | page, MB | inputs | same output | equal | log p | weights | s, median | s, 95 % |",
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
)


class Measurement(NamedTuple):
    """Figures of one run."""

    run: str
    megabytes: float
    differences: list[Difference]
    same_outputs: int
    seconds: list[float]


def test_inputs(parts: LoadedRun, count: int, folder: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Held-out inputs of a task, for Python and as a request of the page."""
    task: Any = parts.task
    name = parts.recipe.task.name
    if not task.input_suffixes:
        for text in itertools.islice(TEXTS.get(name, corpus_texts)(task), count):
            yield text, {"text": text}
        return
    for index, (suffix, content) in enumerate(itertools.islice(FILES.get(name, image_files)(task), count)):
        path = folder / f"{index}{suffix}"
        path.write_bytes(content)
        upload = {"name": path.name, "file": base64.b64encode(content).decode()}
        yield str(path), {"text": path.name, "upload": upload}


def corpus_texts(task: Any) -> Iterator[str]:
    """The test texts of a task with pairs, documents or sentences."""
    splits = next(getattr(task, name) for name in ("pairs", "documents", "sentences") if hasattr(type(task), name))
    for example in splits["test"]:
        yield example if isinstance(example, str) else getattr(example, "text", None) or example[0]


def lines_of_text(task: Any) -> Iterator[str]:
    """Lines of the built-in validation text, with at least five words; the text of a shipped run may be elsewhere."""
    documents = plain_text.open_text(plain_text.PlainTextSource((), plain_text.BUILT_IN))["valid"]
    return (" ".join(words[:12]) for text in documents for words in map(str.split, text.splitlines()) if len(words) > 4)


def masked_lines(task: Any) -> Iterator[str]:
    """Lines of the validation text, the third word of each masked."""
    for line in lines_of_text(task):
        words = line.split()
        yield " ".join([*words[:2], "[MASK]", *words[3:]])


def sums_of_words(task: Any) -> Iterator[str]:
    """Words of the vocabulary, and sums of three."""
    words = [word for word in task.token_texts()[task.special_tokens.first_regular_id :] if word.isalpha()]
    for index, word in enumerate(words):
        yield word if index % 2 else f"{word} - {words[index + 1]} + {words[index + 2]}"


def users(task: Any) -> Iterator[str]:
    """Ids of users."""
    return iter(task.data.users.ids)


def image_files(task: Any) -> Iterator[tuple[str, bytes]]:
    """The test images of a task."""
    part = task.collection.split("test")
    for index in range(len(part)):
        yield ".png", encode_png(part.take(np.array([index]))[0][0] if hasattr(part, "take") else part.pixels[index])


def music_files(task: Any) -> Iterator[tuple[str, bytes]]:
    """The start of each test piece, as MIDI."""
    for piece in itertools.chain(task.split("test"), task.split("valid")):
        notes = task.encoding.notes(task.encoding.crop_start(piece.content, MUSIC_SECONDS))
        yield ".mid", to_midi(notes, task.encoding)


def speech_files(task: Any) -> Iterator[tuple[str, bytes]]:
    """The test recordings, as WAV."""
    part = task.collection.split("test")
    for index in range(len(part)):
        yield ".wav", encode_wav(part.waveform(index), task.config.sample_rate)


TEXTS = {
    "language": lines_of_text,
    "masked_language": masked_lines,
    "embeddings": sums_of_words,
    "recommendation": users,
}
FILES = {"music": music_files, "speech_recognition": speech_files}
MUSIC_SECONDS = 6.0


def measure(run: str, count: int, folder: Path, browser: Any) -> Measurement:
    parts = load_run(run)
    if parts.recipe.decoding is not None and parts.recipe.decoding.name == "sample":
        parts = load_run(run, ["decoding=greedy"])  # random numbers of the page differ
    file = model_file(parts) | {"page": {"facts": {}}}
    engine = browser.new_page()
    engine.add_script_tag(content=standalone_script(SCRIPTS / "global.js"))
    engine.evaluate("file => regard.load(file)", file)
    target, differences, seconds, same = target_of(parts), [], [], 0
    for raw_input, request in test_inputs(parts, count, folder):
        expected = inspect_quickly(target, raw_input)
        result = engine.evaluate("request => regard.inspect(request)", request)
        differences.append(compare(expected, result))
        same += [output.text for output in expected.outputs[:1]] == [output["text"] for output in result["outputs"][:1]]
        seconds.append(engine.evaluate("request => regard.seconds(request)", request))
        if not differences[-1].is_equal:
            print(run, raw_input, differences[-1], flush=True)
    engine.close()
    size = len(page(parts).encode()) / 1e6
    return Measurement(run.rpartition("/")[2].removeprefix("pretrained:"), size, differences, same, seconds[1:])


def row(result: Measurement) -> str:
    """One row of the table."""
    count = len(result.differences)
    finite = [difference for difference in result.differences if not difference.problems]
    scores, weights = (
        max((getattr(item, name) for item in finite), default=float("nan")) for name in ("scores", "weights")
    )
    equal = sum(difference.is_equal for difference in result.differences)
    return (
        f"| `{result.run}` | {result.megabytes:.1f} | {count} | {result.same_outputs} | {equal} | {scores:.1e} "
        f"| {weights:.1e} | {np.median(result.seconds):.3f} | {np.quantile(result.seconds, 0.95):.3f} |"
    )


def with_rows(text: str, lines: list[str]) -> str:
    """Return the page with these rows of the table, in place of earlier rows of the same runs."""
    table = TABLE.search(text)
    old = [] if table is None else table[0].splitlines()[len(HEADER) :]
    rows = {line.split("|")[1].strip(): line for line in (*old, *lines)}
    return TABLE.sub(lambda _: "\n".join([*HEADER, *(rows[name] for name in sorted(rows))]) + "\n", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/web-inputs"))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    lines = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        for run in arguments.runs:
            lines.append(row(measure(run, arguments.inputs, arguments.folder, browser)))
            print(lines[-1], flush=True)
        browser.close()
    if arguments.write:
        DOCS.write_text(with_rows(DOCS.read_text(encoding="utf-8"), lines), encoding="utf-8")
    print(f"CPU minutes of Python: {resource.getrusage(resource.RUSAGE_SELF).ru_utime / 60:.1f}")


if __name__ == "__main__":
    main()
