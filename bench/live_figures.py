"""Live figures of the site: python bench/live_figures.py [NAME…] trains small models and inspects one input of each.

docs/figures stores the data of explorer pages, without parts that the site does not show; bench/site_hooks.py creates
the pages. Models are trained on built-in data in a temporary folder, about eight minutes of one core for all. The
figure `soft` is of a shipped run.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import regard
from regard.data.builtin import reviews
from regard.data.images.image_files import encode_png
from regard.inspection.compare import to_page
from regard.inspection.json_format import Inspection, to_json

OUT = Path(__file__).resolve().parents[1] / "docs" / "figures"
SENTENCE = "The brave police officer ate an apple on Monday."
TRANSLATION = ("data.pairs=12000", "data.vocab_size=600", "data.max_batch_tokens=1024", "training.optimizer.lr=0.004")
COSINE = ("training.schedule.name=cosine", "training.schedule.warmup=100")
RECURRENT = ("model.dim=64", "model.embedding=48", "model.dropout=0.1")
WORDS = (
    "The popcorn was really clever. It is about a young doctor who looks for a lost letter. The film lasts 62 minutes. "
    "I thought that the camera was not quite clever."
)


class Figure(NamedTuple):
    """A model, its training, the inspected input, and the optional parts that are stored: "steps", "positions"."""

    task: str
    settings: tuple[str, ...]
    steps: int
    text: str = SENTENCE  # empty: the first test image
    stored_parts: tuple[str, ...] = ()


def translator(name: str, *settings: str, steps: int, stored_parts: tuple[str, ...] = ()) -> Figure:
    """Return the figure of a small model of the built-in English-Korean pairs."""
    return Figure("translation", (f"model={name}", *TRANSLATION, *COSINE, *settings), steps, stored_parts=stored_parts)


FIGURES = {
    "transformer": translator(
        *("transformer", "model.layers=2", "model.dim=48", "model.ffn_dim=96", "model.heads=4"),
        steps=1500,
        stored_parts=("steps", "positions"),
    ),
    "bahdanau": translator("bahdanau", *RECURRENT, "model.encoder=32", steps=1200, stored_parts=("steps",)),
    "luong": translator("luong", *RECURRENT, steps=1200),
    "levels": Figure(
        "classification",
        ("model.dim=16", "model.attention_dim=32", "model.gate=-2.0", *COSINE, "training.optimizer.lr=0.003"),
        steps=900,
        text=WORDS,
    ),
    "local": Figure(
        "image_generation",
        (
            *("model=image_transformer", "model.layers=2", "model.dim=48", "model.heads=4", "model.attention=local_2d"),
            *("model.query_block=[4, 4]", "model.memory_block=[4, 4]", *COSINE, "training.optimizer.lr=0.003"),
        ),
        steps=1500,
        text="",
    ),
}
READING = (
    *('data.paths=["{text}"]', "data.tokenizer=word", "data.context=32", "data.batch_size=32", "data.eval_tokens=2000"),
    *("model.layers=2", "model.dim=48", "model.heads=4", "model.dropout=0.0", "training.optimizer.lr=0.003", *COSINE),
)
FIGURES |= {
    "next": Figure("language", ("model=gpt", *READING), steps=500, text="The film lasts 62 minutes. The direction was"),
    "gap": Figure(
        "masked_language",
        ("model=bert", *READING, "model.position=rotary", "model.segments=0"),
        steps=400,
        text="The film lasts 62 [MASK]. It is [MASK] an old sailor.",
    ),
}
SHIPPED = {"soft": "captioning", "hard": "captioning-hard"}  # shipped runs that describe the same image
MAX_SCENES = 60  # among which one is searched that all of them describe correctly
COMPARED = {"lineage": ("bahdanau", "luong", "transformer")}


def train_and_inspect(figure: Figure, folder: Path) -> Inspection:
    """Train the model and inspect its input; for image tasks, the first image of the test data."""
    corpus = folder.with_suffix(".txt")
    corpus.write_text(
        "\n".join(review.text for review in reviews.generate("train", 2000, language="en", seed=1)) + "\n"
    )
    replaced = [setting.replace("{text}", str(corpus)) for setting in figure.settings]
    settings = [*replaced, f"training.steps={figure.steps}", f"training.evaluation.every={figure.steps}"]
    run: Any = regard.train(figure.task, settings, out=folder)
    raw_input = figure.text
    if not raw_input:
        part = run.task.collection.split("test")
        (folder / "input.png").write_bytes(
            encode_png(part.pixels[part.indices[0]] if hasattr(part, "indices") else part.pixels[0])
        )
        raw_input = str(folder / "input.png")
    print(run.evaluate("valid"), flush=True)
    inspection: Inspection = run.look(raw_input).inspection
    return replace(inspection, facts=without_time(inspection.facts))


def without_large_parts(inspection: Inspection, stored_parts: Iterable[str] = ()) -> Inspection:
    """Remove large parts that are not shown: steps of other maps, parameter tables, and outputs after the second."""
    first = inspection.primary_map
    steps = tuple(step for step in inspection.steps if first is not None and step.map == first.name)
    return replace(
        inspection,
        steps=steps if "steps" in stored_parts else (),
        positions=inspection.positions if "positions" in stored_parts else None,
        embeddings=(),
        outputs=inspection.outputs[:2],
    )


def write(name: str, data: dict[str, Any]) -> None:
    """Write one file of docs/figures."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"wrote {path}: {path.stat().st_size / 1000:.0f} kB", flush=True)


def inspect_shipped(folder: Path) -> dict[str, Inspection]:
    """Inspect one test image with all runs of SHIPPED: the first that all of them describe as in the test data."""
    runs: dict[str, Any] = {name: regard.load(f"pretrained:{run}") for name, run in SHIPPED.items()}
    part = runs["soft"].task.collection.split("test")
    path = folder / "example.png"
    for row in range(MAX_SCENES):
        path.write_bytes(encode_png(part.pixels[row]))
        if "white" not in part.captions[row][0] and all(  # colors are easier to recognize
            run.predict([str(path)])[0][0].text in part.captions[row] for run in runs.values()
        ):
            break
    else:
        raise ValueError(f"no image of {MAX_SCENES} is described correctly by all of {', '.join(SHIPPED.values())}")
    inspections = {name: run.look(str(path)).inspection for name, run in runs.items()}
    return {name: replace(inspection, facts=without_time(inspection.facts)) for name, inspection in inspections.items()}


def without_time(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts without the time of the prediction, which says more about the machine than about the model."""
    return {key: value for key, value in facts.items() if key != "seconds"}


def main(*names: str) -> None:
    """Create the named figures, or all of them."""
    selected = names or (*FIGURES, *COMPARED, *SHIPPED)
    inspections: dict[str, Inspection] = {}
    with tempfile.TemporaryDirectory() as folder:
        if any(name in SHIPPED for name in selected):
            for name, inspection in inspect_shipped(Path(folder)).items():
                write(name, to_json(without_large_parts(inspection)))
        trained = [name for name in selected if name not in SHIPPED]
        for name in dict.fromkeys(part for name_ in trained for part in COMPARED.get(name_, (name_,))):
            inspections[name] = train_and_inspect(FIGURES[name], Path(folder) / name)
            if name in selected and name != "luong":
                write(name, to_json(without_large_parts(inspections[name], FIGURES[name].stored_parts)))
        for name, parts in COMPARED.items():
            if name in selected:
                write(name, to_page([without_large_parts(inspections[part]) for part in parts]))


if __name__ == "__main__":
    main(*sys.argv[1:])
