"""Train the runs that ship with the package, measure them and write docs/pretrained_models.md.

    python bench/pretrained.py                  # all runs, one after the other
    python bench/pretrained.py tagging music    # only these
    python bench/pretrained.py --page           # only the page, from the shipped runs

Each run is trained by its recipe `recipes/pretrained_NAME.toml`, evaluated on its test split with float16 weights, and
copied to src/regard/data/pretrained/NAME without its training state.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import torch

import regard
from regard.core.pretrained_runs import CARD_FILE, FOLDER, PREFIX, PretrainedCard, pretrained_folders
from regard.training import tensor_files
from regard.training.run_folder import RunFolder, read_identity

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "pretrained_models.md"
ORIGINS = {  # name -> (training data, license); the name before "-" is the task
    "translation": ("30,000 built-in English-Korean pairs", "Apache-2.0"),
    "translation-bahdanau": ("30,000 built-in English-Korean pairs", "Apache-2.0"),
    "translation-luong": ("30,000 built-in English-Korean pairs", "Apache-2.0"),
    "translation-seq2seq": ("30,000 built-in English-Korean pairs", "Apache-2.0"),
    "classification": ("6,000 built-in English reviews", "Apache-2.0"),
    "classification-korean": ("6,000 built-in Korean reviews", "Apache-2.0"),
    "tagging": ("built-in English sentences", "Apache-2.0"),
    "tagging-korean": ("built-in Korean sentences", "Apache-2.0"),
    "language": ("tiny Shakespeare, 1.0 M characters", "public domain"),
    "masked_language": ("the built-in Python documentation", "PSF"),
    "embeddings": ("the built-in Python documentation", "PSF"),
    "image_classification": ("1,437 digits of 8x8 pixels (UCI, scikit-learn)", "CC BY 4.0"),
    "image_generation": ("1,437 digits of 8x8 pixels (UCI, scikit-learn)", "CC BY 4.0"),
    "detection": ("built-in scenes of shapes", "Apache-2.0"),
    "captioning": ("built-in scenes of shapes with captions", "Apache-2.0"),
    "captioning-hard": ("built-in scenes of shapes with captions", "Apache-2.0"),
    "music": ("built-in chorales", "public domain"),
    "recommendation": ("built-in ratings of films", "Apache-2.0"),
}
SHIPPED = ("config.json", "README.md", "model.safetensors")  # and the files of the task, which config.json lists


def main() -> None:
    """Train, measure and pack the requested runs; then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs to train; default: all")
    parser.add_argument("--page", action="store_true", help="write only the page")
    arguments = parser.parse_args()
    for name in () if arguments.page else arguments.names or ORIGINS:
        with tempfile.TemporaryDirectory() as scratch:
            pack(name, *train(name, Path(scratch) / "run"))
    PAGE.write_text(page(), encoding="utf-8")


def train(name: str, out: Path) -> tuple[Path, float]:
    """Train the recipe of a run -> the run folder and the minutes it took."""
    started_at = time.perf_counter()
    task = name.partition("-")[0]
    regard.train(task, recipe=ROOT / "recipes" / f"{recipe_name(name)}.toml", out=out)
    return out, (time.perf_counter() - started_at) / 60


def recipe_name(name: str) -> str:
    """Return the name of the recipe of a shipped run."""
    return f"pretrained_{name.replace('-', '_')}"


def pack(name: str, run: Path, minutes: float) -> None:
    """Copy a trained run into the package, with float16 weights and its card."""
    draft = run.with_name("packed")
    draft.mkdir()
    for file in (*SHIPPED, *read_identity(RunFolder(run)).files):
        (draft / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run / file, draft / file)
    tensors, metadata = tensor_files.read_tensors(run / "model.safetensors")
    metadata.pop("sha256", None)
    halves = {key: value.half() if value.dtype == torch.float32 else value for key, value in tensors.items()}
    tensor_files.write_tensors(draft / "model.safetensors", halves, metadata)
    loaded = regard.load(draft)
    metric, scores = loaded.task.target_metric.metric, loaded.evaluate("test")
    data, license_name = ORIGINS[name]
    card = PretrainedCard(
        task=name.partition("-")[0],
        model=loaded.recipe.model.name,
        data=data,
        license=license_name,
        metric=metric,
        score=scores[metric],
        minutes=round(minutes, 1),
        recipe=recipe_name(name),
        predictions=example_predictions(loaded),
    )
    text = json.dumps(asdict(card), indent=1, ensure_ascii=False)
    (draft / CARD_FILE).write_text(f"{text}\n", encoding="utf-8")
    target = FOLDER / name
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(draft, target)
    print(f"{PREFIX}{name}: {card.metric} {card.score:.4g} after {card.minutes} minutes")


def example_predictions(run: regard.Run) -> dict[str, str]:
    """Return the predictions of the examples of a task, which a test compares; empty if they are sampled."""
    if run.recipe.decoding is not None and run.recipe.decoding.name == "sample":
        return {}
    examples = [example for example in run.task.examples if example]
    return {Path(example).name: ranked[0].text for example, ranked in zip(examples, run.predict(examples), strict=True)}


def page() -> str:
    """Return docs/pretrained_models.md: one row per shipped run."""
    rows = [
        "| run | model | trained on | license | held-out score | minutes | MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, folder in pretrained_folders().items():
        card = PretrainedCard.read(folder)
        megabytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
        rows.append(
            f"| `{PREFIX}{name}` | {card.model} | {card.data} | {card.license} | {card.metric} {card.score:.4g} "
            f"| {card.minutes:g} | {megabytes:.1f} |"
        )
    return "\n".join([INTRODUCTION, *rows, ""])


INTRODUCTION = """# Pretrained runs

Small trained runs ship with the package. `pretrained:NAME` stands wherever a run folder is accepted:

```bash
regard list pretrained
regard translate pretrained:translation "The nurse is reading."
regard serve pretrained:translation pretrained:classification
```

The runs are read-only. Their weights are stored as float16 and computed as float32. Most are trained on the built-in
data of their task, which is generated from templates: they show the mechanism and are not general-purpose models.
`python bench/pretrained.py` trains them all again from `recipes/pretrained_*.toml` and writes this page; minutes are
those of one core.
"""


if __name__ == "__main__":
    main()
