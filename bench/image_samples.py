"""Samples of trained image models as pictures and figures: grids of samples, recognized digits, enlargements.

    python bench/image_samples.py RUNS [--count 100]

Of the runs that exist (RUNS/<recipe name>): digits_images -> ten digits of each class at temperature 1, the share of
`--count` per class that the run of digits_vit recognizes, and completed upper halves; digits_upscale and faces_upscale
-> input, bicubic, most likely, mean, a sample at temperature 1, and original; mnist_binary_local_2d -> samples, and
completed upper halves; scenes_detr -> boxes. Pictures are written to docs/images/, figures to docs/image_samples.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.api.run import Run, load
from regard.core.protocols.image_generator import ImageCondition
from regard.data.images import drawing
from regard.data.images.image_files import encode_png
from regard.decoding.strategies import sample
from regard.tasks.image_generation.generate import UNKNOWN, LevelMode, generate
from regard.tasks.image_generation.levels import decode, encode, upscale_bicubic

DOCS = Path(__file__).parents[1] / "docs"
FIGURES, PICTURES = DOCS / "image_samples.json", DOCS / "images"
NUM_IMAGES = 8  # images of a row
GREY = 96  # what is not known yet
WARM = sample.Config(temperature=1.0, seed=1)


def keep(name: str, images: Any, *, columns: int, scale: int = 3) -> None:
    """Write docs/images/<name>.png: images next to each other."""
    (PICTURES / f"{name}.png").write_bytes(encode_png(drawing.make_grid(images, columns=columns), scale=scale))


def digits(run: Run, runs: Path, count: int) -> dict[str, Any]:
    """Draw samples of every class; return the share that the recognizer assigns to its class."""
    task: Any = run.task
    labels = torch.arange(10).repeat_interleave(count)
    subject = ImageCondition(labels, torch.zeros(len(labels), 0, dtype=torch.long))
    images = decode(generate(run.model, subject, None, sizes=task.spec, choice=WARM), task.spec)
    keep("digits_samples", images.reshape(10, count, 8, 8, 1)[:, :10].reshape(-1, 8, 8, 1), columns=10, scale=4)
    completed(run)
    if not (runs / "digits_vit").exists():
        return {}
    judge = load(runs / "digits_vit")
    right = judge.task.log_probabilities(judge.model, images).argmax(dim=1) == labels
    real, truth = judge.task.collection.split("test").all()
    is_right = judge.task.log_probabilities(judge.model, real).argmax(dim=1).numpy() == truth
    return {
        "samples": len(labels),
        "distinct": len(np.unique(images.reshape(len(images), -1), axis=0)),
        "recognised": round(100 * right.double().mean().item(), 2),
        "by_class": [round(100 * float(part.double().mean()), 1) for part in right.view(10, count)],
        "real_recognised": round(100 * float(is_right.mean()), 2),
    }


def completed(run: Run) -> None:
    """Draw one row per test image: its upper half, three completions, the original."""
    task: Any = run.task
    truth, labels = task.split("test")
    chosen = [list(labels).index(label) for label in (2, 5, 8)]
    truth = truth[chosen]
    levels, subject = encode(truth, np.full(len(truth), -1), task.spec)
    levels[:, levels.shape[1] // 2 :] = UNKNOWN
    upper = truth.copy()
    upper[:, truth.shape[1] // 2 :] = GREY
    completions = [
        decode(generate(run.model, subject, levels, sizes=task.spec, choice=replace(WARM, seed=seed)), task.spec)
        for seed in (1, 2, 3)
    ]
    rows = np.stack([upper, *completions, truth], axis=1)
    keep("digits_completed", rows.reshape(-1, *truth.shape[1:]), columns=len(completions) + 2, scale=8)


def enlarged(run: Run, runs: Path, count: int) -> dict[str, Any]:
    """Draw one row per image: input, bicubic, most likely output, mean output, a sample, the original."""
    task: Any = run.task
    truth, _ = task.split("test")
    truth = truth[:: max(1, len(truth) // NUM_IMAGES)][:NUM_IMAGES]
    subject = encode(truth, np.full(len(truth), -1), task.spec).condition
    small = decode(subject.low_res, task.spec, size=task.spec.low_res_size)
    times = task.spec.height // task.spec.low_res_size[0]
    ways = [small.repeat(times, axis=1).repeat(times, axis=2), upscale_bicubic(small, task.spec)]
    for how in (LevelMode.MOST_LIKELY, LevelMode.MEAN, WARM):
        ways.append(decode(generate(run.model, subject, None, sizes=task.spec, choice=how), task.spec))
    rows = np.stack([*ways, truth], axis=1)  # (n 6 h w c)
    keep(f"{run.folder.name}", rows.reshape(-1, *truth.shape[1:]), columns=6, scale=8 if len(truth[0]) < 16 else 3)
    return {"columns": ["given", "bicubic", "most likely", "mean", "a sample", "truth"]}


def strokes(run: Run, runs: Path, count: int) -> dict[str, Any]:
    """Draw samples without input, and completed lower halves of real images."""
    task: Any = run.task
    nothing = ImageCondition(torch.zeros(NUM_IMAGES, dtype=torch.long), torch.zeros(NUM_IMAGES, 0, dtype=torch.long))
    fresh = decode(generate(run.model, nothing, None, sizes=task.spec, choice=WARM), task.spec)
    truth = task.split("test")[0][:NUM_IMAGES]
    levels = encode(truth, np.full(NUM_IMAGES, -1), task.spec).pixels
    half = levels.clone()
    half[:, half.shape[1] // 2 :] = -1
    completed = decode(generate(run.model, nothing, half, sizes=task.spec, choice=WARM), task.spec)
    rows = np.concatenate([fresh, decode(levels, task.spec), completed])
    keep(f"{run.folder.name}", rows, columns=NUM_IMAGES, scale=3)
    return {"rows": ["from nothing", "real", "upper half given"]}


def boxes(run: Run, runs: Path, count: int) -> dict[str, Any]:
    """Draw a scene of the test split with its detected objects."""
    task: Any = run.task
    answer = run.detect([run.task.examples[0]])[0][0]
    (PICTURES / "scenes_detr.png").write_bytes(answer.render(".png"))
    return {"example": answer.text, "classes": list(task.classes)}


MAKERS: dict[str, Callable[[Run, Path, int], dict[str, Any]]] = {
    "digits_images": digits,
    "digits_upscale": enlarged,
    "faces_upscale": enlarged,
    "mnist_binary_local_2d": strokes,
    "scenes_detr": boxes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--count", type=int, default=100, help="digits of each class that are to be recognised")
    args = parser.parse_args()
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name, make in MAKERS.items():
        if (args.runs / name / "model.safetensors").exists():
            figures[name] = make(load(args.runs / name), args.runs, args.count)
            print(name, figures[name], flush=True)
            FIGURES.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
