"""One HTML page that runs a model: the explorer of an example, the model file, and the worker that runs it.

The first inspection comes from Python, so that the page is drawn before the model is read. Later ones come from the
worker.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.convert.web.model_file import model_file
from regard.core.errors import ConfigError
from regard.core.files import write_text
from regard.inspection.collect import collect
from regard.inspection.html_bundle import bundle, escape, standalone_script
from regard.inspection.json_format import to_json
from regard.inspection.report import target_of
from regard.training.load_run import LoadedRun

SCRIPTS = Path(__file__).resolve().parent / "js"
MAX_FILE_BYTES = 8_000_000  # of one HTML file; a larger page is a folder
MAX_STEP_NUMBERS = 100_000  # values of the steps of the first inspection; the model computes the others
# The worker is made from a text of the page. Nothing is loaded from anywhere.
RULES = "img-src data: blob:; worker-src blob:"
PAGE_FACTS = (
    "version",
    "model",
    "task",
    "positions",
    "embeddings",
    "probes",
    "hasModel",
    "opens",
    "options",
    "generates",
)


def export(parts: LoadedRun, out: Path) -> list[str]:
    """Write a page that runs the model of a run to an HTML file, or to index.html of a folder -> lines about it."""
    html = page(parts)
    size = len(html.encode())
    is_file = out.suffix.lower() in {".html", ".htm"}
    if is_file and size > MAX_FILE_BYTES:
        raise ConfigError(
            f"{out}: the page has {size / 1e6:.1f} MB, more than {MAX_FILE_BYTES / 1e6:.0f} MB in one file; "
            "give a folder in place of an .html file"
        )
    target = out if is_file else out / "index.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, html)
    return [f"{target}: {size / 1e6:.1f} MB; open it in a browser, from disk or from any static host"]


def page(parts: LoadedRun) -> str:
    """Return the HTML page of a run, with the inspection of its first example."""
    file = model_file(parts)
    first = _first_inspection(parts) | {"hasModel": True}
    for name in ("opens", "options", "generates"):
        if name in file:
            first[name] = file[name]
    file["page"] = {name: first[name] for name in PAGE_FACTS if name in first}
    file["page"]["facts"] = {name: value for name, value in first["facts"].items() if name != "seconds"}
    worker = standalone_script(SCRIPTS / "worker.js")
    elements = (
        f'<script type="application/json" id="model">{escape(file)}</script>\n'
        f'<script type="text/plain" id="worker">{worker}</script>'
    )
    return bundle(first, elements=elements, rules=RULES)


def _first_inspection(parts: LoadedRun) -> dict[str, Any]:
    """Return the inspection of the first example, as Python computes it."""
    example = next((text for text in parts.task.examples if text), "")
    inspection = collect(replace(target_of(parts), probes=()), example)
    return json.loads(json.dumps(to_json(inspection, max_step_numbers=MAX_STEP_NUMBERS), default=list))  # type: ignore[no-any-return]  # an object
