"""Train the runs that ship with the package, measure them and write docs/pretrained_models.md.

    python bench/pretrained.py                       # all runs, one after the other
    python bench/pretrained.py music --runs FOLDER   # train and measure in FOLDER/music and FOLDER/packed/music
    python bench/pretrained.py music --copy FOLDER   # copy FOLDER/packed/music into the package
    python bench/pretrained.py --page                # only the page, from the shipped runs

Each run is trained by its recipe `recipes/pretrained_NAME.toml`, evaluated on its test split with float16 weights, and
copied to src/regard/data/pretrained/NAME without its training state. With `--runs`, nothing in the repository changes,
so several runs can be trained at the same time; a run that is already trained there is only measured and packed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import regard
from regard.core.checksummed_json import read_json, write_json
from regard.core.pretrained_runs import CARD_FILE, FOLDER, PREFIX, PretrainedCard, pretrained_folders
from regard.core.registry import find
from regard.training import model_card, tensor_files
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
    "speech_recognition": (
        "strings of spoken digits (Free Spoken Digit Dataset, Zohar Jackson and contributors)",
        "CC BY-SA 4.0",
    ),
}
PACKED = "packed"
HELD_OUT = {"language": "valid"}  # the text has no test split
OPTIONS: dict[str, dict[str, Any]] = {  # of the example predictions, for tasks that sample
    "language": {"tokens": 60, "temperature": 0.0},
    "music": {"seconds": 4.0, "temperature": 0.0},
    "image_generation": {"n": 1, "temperature": 0.0},
}
TEMPLATES = "The data is generated from templates: other words and sentence structures are not learned."
SCENES = (
    "It knows shapes up to a third of the side of the picture, in the colors of the built-in scenes, and no photos."
)
LIMITS = {
    "translation": TEMPLATES,
    "translation-bahdanau": TEMPLATES,
    "translation-luong": TEMPLATES,
    "translation-seq2seq": TEMPLATES,
    "classification": TEMPLATES,
    "classification-korean": TEMPLATES,
    "tagging": TEMPLATES,
    "tagging-korean": TEMPLATES,
    "captioning": SCENES,
    "captioning-hard": SCENES,
    "detection": SCENES,
    "image_classification": "It knows digits of 8x8 pixels.",
    "image_generation": "It generates digits of 8x8 pixels.",
    "language": "It imitates the style of its text; sentences have no meaning.",
    "masked_language": "Trained briefly, it often predicts frequent words such as *the*; it knows 3,000 words.",
    "embeddings": "Only frequent words of the documentation have useful neighbors.",
    "music": "It continues, harmonises and generates chorales in the style of Bach, in windows of 256 tokens.",
    "recommendation": "The ratings are simulated.",
    "speech_recognition": "It recognizes the ten digits in English, best in the voices of the six recorded speakers.",
}
SHIPPED = ("config.json", "README.md", "model.safetensors")  # and the files of the task, which config.json lists


def main() -> None:
    """Train, measure and pack the requested runs; then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs to train; default: all")
    parser.add_argument("--runs", type=Path, help="train and pack in this folder, outside of the repository")
    parser.add_argument("--copy", type=Path, metavar="RUNS", help="only copy the packed runs of this folder")
    parser.add_argument("--page", action="store_true", help="write only the page")
    arguments = parser.parse_args()
    names = () if arguments.page else arguments.names or ORIGINS
    if arguments.runs is not None:
        for name in names:
            train_and_pack(name, arguments.runs)
        return
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            folder = train_and_pack(name, Path(scratch)) if arguments.copy is None else arguments.copy / PACKED / name
            shutil.rmtree(FOLDER / name, ignore_errors=True)
            shutil.copytree(folder, FOLDER / name)
    PAGE.write_text(page(), encoding="utf-8")


def train_and_pack(name: str, runs: Path) -> Path:
    """Train the recipe of a run in `runs`/name, unless it is finished, and pack it -> the packed folder."""
    run, minutes_file = runs / name, runs / f"{name}.minutes"
    if not minutes_file.exists():
        shutil.rmtree(run, ignore_errors=True)
        started_at = time.process_time()
        regard.train(name.partition("-")[0], recipe=ROOT / "recipes" / f"{recipe_name(name)}.toml", out=run)
        minutes_file.write_text(f"{(time.process_time() - started_at) / 60:.1f}\n", encoding="utf-8")
    packed = runs / PACKED / name
    pack(name, run, packed, float(minutes_file.read_text(encoding="utf-8")))
    return packed


def recipe_name(name: str) -> str:
    """Return the name of the recipe of a shipped run."""
    return "spoken_digits_las" if name == "speech_recognition" else f"pretrained_{name.replace('-', '_')}"


def pack(name: str, run: Path, draft: Path, minutes: float) -> None:
    """Copy a trained run to `draft`, with float16 weights and its card."""
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    for file in (*SHIPPED, *read_identity(RunFolder(run)).files):
        (draft / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run / file, draft / file)
    card_text = model_card.rename((run / "README.md").read_text(encoding="utf-8"), run.name, f"{PREFIX}{name}")
    (draft / "README.md").write_text(with_license(card_text, name), encoding="utf-8")
    tensors, metadata = tensor_files.read_tensors(run / "model.safetensors")
    metadata.pop("sha256", None)
    halves = {key: value.half() if value.dtype == torch.float32 else value for key, value in tensors.items()}
    tensor_files.write_tensors(draft / "model.safetensors", halves, metadata)
    loaded = regard.load(draft)
    metric, scores = loaded.task.target_metric.metric, loaded.evaluate(HELD_OUT.get(name, "test"))
    data, license_name = ORIGINS[name]
    card = PretrainedCard(
        task=name.partition("-")[0],
        model=loaded.recipe.model.name,
        data=data,
        license=license_name,
        metric=metric,
        score=scores[metric],
        minutes=minutes,
        recipe=recipe_name(name),
        **example_predictions(loaded),
    )
    without_folders(draft)
    text = json.dumps(asdict(card), indent=1, ensure_ascii=False)
    (draft / CARD_FILE).write_text(f"{text}\n", encoding="utf-8")
    print(f"{PREFIX}{name}: {card.metric} {card.score:.4g} after {card.minutes} minutes")


def without_folders(run: Path) -> None:
    """Replace the paths of the training data in a packed run by their file names."""
    config, card = read_json(run / "config.json"), run / "README.md"
    for path in config["data"].get("paths") or ():
        card.write_text(card.read_text(encoding="utf-8").replace(path, Path(path).name), encoding="utf-8")
    if config["data"].get("paths"):
        config["data"]["paths"] = [Path(path).name for path in config["data"]["paths"]]
        write_json(run / "config.json", config)


def with_license(card: str, name: str) -> str:
    """Return the card of a run with the origin and the license of its training data."""
    data, license_name = ORIGINS[name]
    section = f"## Data and license\n\nTrained on {data}; license of the data and of the examples: {license_name}.\n\n"
    return card.replace("## Use\n", f"{section}## Use\n", 1)


def example_predictions(run: regard.Run) -> dict[str, Any]:
    """Return the predictions of the examples of a task, their scores and options, which a test compares."""
    options = OPTIONS.get(run.recipe.task.name, {})
    examples = [example for example in run.task.examples if example] or [""]
    best = {
        Path(example).name if Path(example).is_absolute() else example: ranked[0]
        for example, ranked in zip(examples, run.predict(examples, **options), strict=True)
    }
    return {
        "predictions": {example: prediction.text for example, prediction in best.items()},
        "log_probs": {name: prediction.score for name, prediction in best.items() if prediction.score is not None},
        "options": options,
    }


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
    cards = [model_card_section(name, PretrainedCard.read(folder)) for name, folder in pretrained_folders().items()]
    return "\n".join([INTRODUCTION, *rows, "", *cards])


def model_card_section(name: str, card: PretrainedCard) -> str:
    """Return the card of a shipped run: use, examples, origin and limits."""
    verb = find("regard.tasks", card.task).VERB
    example, prediction = next(iter(card.predictions.items()))
    source = example in {path.name for path in (FOLDER / name).iterdir()}
    command = f"regard {verb} {PREFIX}{name} {shlex.quote(example) if example else ''}".rstrip()
    note = f"`{example}` is a file of the run; `regard demo {card.task}` uses it.\n" if source else ""
    return f"""## `{PREFIX}{name}`

A `{card.model}` for `{card.task}`, trained on {card.data} (license of the data: {card.license}) by the recipe
[{card.recipe}](../recipes/{card.recipe}.toml). Held-out score: {card.metric} {card.score:.4g}. {LIMITS.get(name, "")}
{note}
```text
$ {command}{"".join(f" {key}={value:g}" for key, value in card.options.items())}
{prediction.strip()}
```
"""


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
the processor time of one thread.
"""


if __name__ == "__main__":
    main()
