"""Compare exported pages with Python on test inputs in Chromium, and write the figures into docs/web.md.

    python bench/web.py RUN … [--inputs 200] [--write]

Each input is inspected by Python and by the engine of the page: outputs, log probabilities of tokens, axes and maps.
Times are of the engine in Chromium with the machine as loaded as it was, without the first input, which compiles the
scripts.
"""

from __future__ import annotations

import argparse
import base64
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
from regard.inspection.collect import inspect_quickly
from regard.inspection.html_bundle import standalone_script
from regard.inspection.report import target_of
from regard.training.load_run import LoadedRun, load_run

DOCS = Path(__file__).parents[1] / "docs" / "web.md"
TABLE = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- end -->)", re.DOTALL)
CHROMIUM = "/usr/bin/chromium"


class Measurement(NamedTuple):
    """Figures of one run."""

    run: str
    megabytes: float
    differences: list[Difference]
    same_outputs: int
    seconds: list[float]


def test_inputs(parts: LoadedRun, count: int, folder: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The first test inputs of a task, for Python and as a request of the page."""
    task: Any = parts.task
    if task.input_suffixes and ".png" in task.input_suffixes:
        part = task.collection.split("test")
        for index in range(min(count, len(part))):
            pixels = (
                part.take(np.arange(index, index + 1))[0][0]
                if hasattr(part, "take")
                else part.images(np.arange(index, index + 1))[0]
            )
            path = folder / f"{index}.png"
            path.write_bytes(encode_png(pixels))
            yield (
                str(path),
                {
                    "text": path.name,
                    "upload": {"name": path.name, "file": base64.b64encode(path.read_bytes()).decode()},
                },
            )
        return
    splits = next(getattr(task, name) for name in ("pairs", "documents", "sentences") if hasattr(type(task), name))
    for example, _ in zip(splits["test"], range(count), strict=False):
        text = example if isinstance(example, str) else getattr(example, "text", None) or example[0]
        yield text, {"text": text}


def measure(run: str, count: int, folder: Path, browser: Any) -> Measurement:
    parts = load_run(run)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/web-inputs"))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    lines = ["| Run | page, MB | inputs | same output | equal | log p | weights | s, median | s, 95 % |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        for run in arguments.runs:
            lines.append(row(measure(run, arguments.inputs, arguments.folder, browser)))
            print(lines[-1], flush=True)
        browser.close()
    if arguments.write:
        text = "\n".join(lines)
        DOCS.write_text(TABLE.sub(lambda _: f"{text}\n", DOCS.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"CPU minutes of Python: {resource.getrusage(resource.RUSAGE_SELF).ru_utime / 60:.1f}")


if __name__ == "__main__":
    main()
