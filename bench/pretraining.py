"""Comparison of pretraining objectives: five encoders of one size are fine-tuned on small labelled and tagged data.

    python bench/pretraining.py [--runs FOLDER] [--quick]

Every encoder has 2 blocks of width 128 and one vocabulary of 4,000 subwords. It is trained on the same text (the
training texts of both tasks, Brown, and one in 32 of the training reviews of IMDB) for the same number of steps of the
same number of tokens. Then each learns movie_reviews (documents to labels) and WNUT17 (words to entities), three seeds
each, for the same number of steps. So do encoders of the same shape without pretraining. Settings are chosen on the
validation data, and scores are reported on the test data. CPU seconds are of one thread.

Figures are stored in docs/pretraining.json after every run, so that an interrupted command can continue. The page
docs/pretraining.md is generated from them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch

import regard
from regard.data.text import labelled_sources, plain_text
from regard.data.text.plain_text import PlainTextSource
from regard.tasks import classification, tagging

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
FIGURES, PAGE = ROOT / "docs" / "pretraining.json", ROOT / "docs" / "pretraining.md"
SEEDS = (1, 2, 3)
TEXT = {
    "data.vocab_size": 4000,
    "data.context": 128,
    "data.batch_size": 24,
    "data.eval_tokens": 20_000,
    "training.steps": 600,
    "training.evaluation.every": 600,
    "training.optimizer.lr": 2e-3,
    "training.schedule": "cosine",
    "training.schedule.warmup": 60,
}
SIZE = {"model.layers": 2, "model.dim": 128, "model.heads": 4, "model.ffn_dim": 512}
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> the task that trains it, its settings
    "bert": ("masked_language", {"model": "bert", "model.position": "rotary", "data.sentence_pairs": "next"}),
    "roberta": ("masked_language", {"model": "bert", "model.position": "rotary", "model.segments": 0}),
    "albert": (
        "masked_language",
        {
            "model": "bert",
            "model.position": "rotary",
            "model.share_layers": True,
            "model.embedding": 64,
            "data.sentence_pairs": "order",
        },
    ),
    "xlnet": ("masked_language", {"model": "xlnet"}),
    "gpt": ("language", {"model": "gpt", "model.position": "rotary"}),
}
LONGER = 2000  # steps of text
ENCODERS["roberta_longer"] = (ENCODERS["roberta"][0], ENCODERS["roberta"][1] | {"training.steps": LONGER})
BARE = ("bert", "xlnet", "gpt")  # of these shapes one that has read nothing; the others have that of bert
TASKS: dict[str, tuple[str, dict[str, Any]]] = {  # name of the data -> its task, its settings
    "movie_reviews": (
        "classification",
        {
            "data.path": str(DATA / "movie_reviews"),
            "data.valid": "cv8*",
            "data.test": "cv9*",
            "data.splitter.marks": "",
            "data.max_length": 192,
            "data.batch_size": 16,
            "training.steps": 200,
            "training.evaluation.every": 100,
        },
    ),
    "wnut17": (
        "tagging",
        {
            "data.path": str(DATA / "wnut17"),
            "data.batch_size": 16,
            "data.max_length": 128,
            "training.steps": 200,
            "training.evaluation.every": 100,
        },
    ),
}
TUNING = {"training.optimizer.lr": 1e-3, "training.schedule": "cosine", "training.schedule.warmup": 30}
SCORE = {"movie_reviews": "accuracy", "wnut17": "f1"}
TINY = {"data.batch_size": 2, "training.steps": 2, "training.evaluation.every": 2}


def text_file(folder: Path) -> Path:
    """Return the file with the training texts of both tasks, Brown, and every 32nd review of IMDB, one text per line.
    More text is not read in so few steps.
    """
    path = folder / "text.txt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        films = classification.Config(path=DATA / "movie_reviews", valid="cv8*", test="cv9*")
        reviews = labelled_sources.open_documents(films.data_source, films.layout)["train"]
        tweets = tagging.Config(path=DATA / "wnut17").open_splits()["train"]
        brown = plain_text.open_text(PlainTextSource((DATA / "brown" / "brown.zip",), ""))["train"]
        imdb = plain_text.open_text(PlainTextSource((DATA / "imdb" / "train.tsv.xz#4",), ""))["train"]
        task_texts = [*(document.text for document in reviews), *(sentence.text for sentence in tweets)]
        lines = [" ".join(text.split()) for text in (*task_texts, *brown, *islice(imdb, 0, None, 32))]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def shape(name: str) -> dict[str, Any]:
    """Return the model settings of an encoder, without those of its data."""
    return {key: value for key, value in (SIZE | ENCODERS[name][1]).items() if key.startswith("model")}


def pretrain(name: str, out: Path, quick: bool, *, steps: int | None = None) -> dict[str, Any]:
    """Train an encoder on text -> its validation nats and what it took."""
    task, encoder_settings = ENCODERS[name]
    settings = (
        TEXT
        | {"data.paths": [str(text_file(out.parent))]}
        | SIZE
        | encoder_settings
        | {"model.dropout": 0.0}
        | (TINY if quick else {})
    )
    if steps is not None:
        settings |= {"training.steps": steps, "training.evaluation.every": steps}
    started_at = time.process_time()
    run = regard.train(task, settings, out=fresh(out), quiet=True)
    seconds = time.process_time() - started_at
    encoder = sum(weight.numel() for weight in run.model.encoder.parameters())
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    nats = [row["valid"]["nats"] for row in log if "valid" in row][-1]
    return {"nats": nats, "seconds": round(seconds, 1), "parameters": encoder}


def tune(name: str, data: str, seed: int, *, start: Path, out: Path, quick: bool) -> dict[str, Any]:
    """Teach an encoder a task -> its score on the test data and what it took."""
    task, task_settings = TASKS[data]
    pretrained = {"pretrained.run": str(start), "pretrained.params": "encoder.*", "pretrained.vocabulary": True}
    same = {"data.tokenizer": "bpe", "data.lowercase": False, "model.dropout": 0.1, "seed": seed}
    settings = task_settings | TUNING | shape(name) | same | pretrained | (TINY if quick else {})
    clock = time.process_time()
    run = regard.train(task, settings, out=fresh(out), quiet=True)
    scores = run.evaluate("test")
    shutil.rmtree(out)
    return {"score": scores[SCORE[data]], "seconds": round(time.process_time() - clock, 1)}


def fresh(folder: Path) -> Path:
    """Return the path of a run after the removal of an incomplete one."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def jobs(runs: Path, figures: dict[str, Any], quick: bool) -> None:
    """Run all missing jobs; each result is stored immediately."""

    def keep(key: str, make: Any) -> None:
        if key not in figures:
            figures[key] = make()
            print(key, figures[key], flush=True)
            if not quick:
                FIGURES.write_text(json.dumps(figures, indent=1) + "\n")

    for name in ENCODERS:
        keep(f"text {name}", partial(pretrain, name, runs / name, quick))
    for name in BARE:
        keep(f"bare {name}", partial(pretrain, name, runs / f"bare_{name}", quick, steps=1))
    shapes = {name: name for name in reversed(ENCODERS)} | {f"bare_{name}": name for name in BARE}
    ordered = sorted(shapes, key=lambda start: start not in ("roberta_longer", "bare_bert"))  # these first
    for start, data, seed in product(ordered, TASKS, SEEDS):
        options = {"start": runs / start, "out": runs / "tuned", "quick": quick}
        keep(f"{data} {start} {seed}", partial(tune, shapes[start], data, seed, **options))


def page(figures: dict[str, Any]) -> str:
    """Write the table and the text above it."""
    steps, tokens = TEXT["training.steps"], TEXT["data.batch_size"] * TEXT["data.context"]
    settings_by_data = {data: settings for data, (_, settings) in TASKS.items()}
    budgets = ", ".join(
        f"{x['training.steps']} steps of {x['data.batch_size']} on {data}" for data, x in settings_by_data.items()
    )
    lines = [
        "# Comparison of pretraining methods",
        "",
        "Written by `python bench/pretraining.py`. A small comparison: encoders have 2 blocks of width 128 (4 heads,",
        f"feed-forward width 512, 4,000 subwords). Pretraining has {steps} steps of {tokens:,} tokens on the training",
        "texts of both tasks, Brown and one in 32 of IMDB's training reviews. Fine-tuning has",
        f"{budgets}. The table shows the mean of three seeds on",
        "the test data with the range. *bare* is the same architecture without pretraining (for roberta and albert",
        f"that of bert). `roberta_longer` was pretrained for {LONGER:,} steps. Seconds are CPU seconds of one thread.",
        "Nats are those of each pretraining task (gaps from both sides, gaps in a random order, the next token)",
        "and do not rank the encoders. Larger models and more text may give another order. The row xlnet was measured",
        "with version 0.2.0, whose relative positions were not yet those of the paper.",
        "",
        "| encoder | parameters | pretraining, s | nats | movie_reviews, accuracy | bare | WNUT17, entity F1 | bare |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in ENCODERS:
        text, bare = figures[f"text {name}"], name if name in BARE else "bert"
        cells = [name, f"{text['parameters']:,}", f"{text['seconds']:.0f}", f"{text['nats']:.2f}"]
        for data in TASKS:
            cells += [spread(figures, data, name), spread(figures, data, f"bare_{bare}")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def spread(figures: dict[str, Any], data: str, name: str) -> str:
    """Return the mean, minimum and maximum of the seeds."""
    keys = (f"{data} {name} {seed}" for seed in SEEDS)
    scores = [figures[key]["score"] for key in keys if key in figures]
    if not scores:
        return "–"
    fewer = "" if len(scores) == len(SEEDS) else f", seeds: {len(scores)}"
    return f"{statistics.mean(scores):.3f} ({min(scores):.3f}–{max(scores):.3f}{fewer})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/pretraining"))
    parser.add_argument(
        "--quick", action="store_true", help="two steps of everything, to see that it runs; nothing is kept"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    figures = {} if args.quick or not FIGURES.exists() else json.loads(FIGURES.read_text())
    jobs(args.runs, figures, args.quick)
    if args.quick:
        print(page(figures))
    else:
        PAGE.write_text(page(figures))


if __name__ == "__main__":
    main()
