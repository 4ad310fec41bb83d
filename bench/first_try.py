"""Does the first try on own data come close to settings chosen by hand? Five data sets, ten settings each, equal time.

    python bench/first_try.py DATA OUT                    # DATA: the folder of real data sets; OUT: files, runs, log
    python bench/first_try.py DATA OUT --set reviews      # one data set
    python bench/first_try.py DATA OUT --page             # only print the table of the log

Each data set is written as a user would have it (a CSV file, a folder of PNG images). `first` is `regard train TASK
data.path=… training.minutes=M` and nothing else; `hand1` … `hand10` set sizes, vocabularies, learning rates and models
by hand. All are trained for the same minutes of the clock and scored on the same test examples. OUT/first_try.json is
written after each run, and a run in it is not repeated.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

WITHIN = 0.05  # relative difference from the best settings that counts as close


class DataSet(NamedTuple):
    """A data set of a user, and ten ways to train on it that a user may choose."""

    task: str
    metric: str
    prepare: Callable[[Path, Path], list[str]]  # data folder, output folder -> settings that name the data
    by_hand: tuple[str, ...]


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a CSV file with a header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def sample(rows: Sequence[Any], count: int) -> list[Any]:
    """Return `count` rows drawn without replacement, the same ones every time."""
    return random.Random(1).sample(list(rows), min(count, len(rows)))


def prepare_pairs(data: Path, out: Path) -> list[str]:
    """3,000 sentence pairs of Tatoeba, English and Korean."""
    for split, count in (("train", 3_000), ("valid", 300), ("test", 322)):
        with gzip.open(data / "ko_en_tatoeba" / f"{split}.tsv.gz", "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t")[:2] for line in file]
        write_table(out / f"{split}.csv", ("en", "ko"), sample(rows, count))
    return [f"data.path={out}"]


def prepare_reviews(data: Path, out: Path) -> list[str]:
    """50,000 Korean film reviews of NSMC."""
    files = {
        "train": ("train_rebuilt", 50_000),
        "valid": ("valid_rebuilt", 2_000),
        "test": ("official_test_part", 5_000),
    }
    for split, (name, count) in files.items():
        with lzma.open(data / "nsmc" / f"{name}.tsv.xz", "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file][1:]
        chosen = sample([row for row in rows if len(row) == 3 and row[1].strip()], count)
        write_table(out / f"{split}.csv", ("label", "text"), [(label, text) for _, text, label in chosen])
    return [f"data.path={out}"]


def prepare_tags(data: Path, out: Path) -> list[str]:
    """5,000 tagged Korean sentences of KLUE-NER; the validation sentences are halved for a test set."""
    out.mkdir(parents=True, exist_ok=True)
    blocks = {}
    for name in ("train_first5000", "dev_first2500"):
        text = gzip.decompress((data / "klue_ner" / f"{name}.tsv.gz").read_bytes()).decode()
        blocks[name] = [block for block in text.split("\n\n") if block.strip()]
    dev = blocks["dev_first2500"]
    splits = {"train": blocks["train_first5000"], "valid": dev[:600], "test": dev[1_250:]}
    for split, sentences in splits.items():
        (out / f"{split}.tsv").write_text("\n\n".join(sentences) + "\n\n", encoding="utf-8")
    return [f"data.path={out}"]


def prepare_images(data: Path, out: Path) -> list[str]:
    """500 digits of MNIST as PNG files, in one folder for each class."""
    from PIL import Image

    for split, stem, count in (("train", "train", 500), ("valid", "train", 500), ("test", "t10k-first5000", 2_000)):
        pixels = np.frombuffer(
            gzip.decompress((data / "mnist" / f"{stem}-images-idx3-ubyte.gz").read_bytes())[16:], np.uint8
        )
        labels = np.frombuffer(
            gzip.decompress((data / "mnist" / f"{stem}-labels-idx1-ubyte.gz").read_bytes())[8:], np.uint8
        )
        images = pixels.reshape(-1, 28, 28)
        first = 1_000 if split == "valid" else 0
        for index in range(first, first + count):
            folder = out / split / f"digit_{labels[index]}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images[index]).save(folder / f"{index}.png")
    return [f"data.path={out}"]


def prepare_ratings(data: Path, out: Path) -> list[str]:
    """The last 50,000 ratings of MovieLens 100K, about 53 of each user."""
    with gzip.open(data / "ml-100k" / "train.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.split() for line in file]
    by_user: dict[str, list[list[str]]] = {}
    for row in sorted(rows, key=lambda row: int(row[3])):
        by_user.setdefault(row[0], []).append(row)
    selected = [row for user in by_user.values() for row in user[-70:]][:50_000]
    write_table(out / "ratings.csv", ("user", "item", "rating", "time"), selected)
    return [f"data.path={out / 'ratings.csv'}"]


SETS = {
    "images": DataSet(
        "image_classification",
        "accuracy",
        prepare_images,
        (
            "model.preset=small",
            "model.preset=cct",
            "model=cnn",
            "model=cnn data.crop=2 data.batch_size=32",
            "model.preset=cct data.crop=2 data.shift=0.1 training.optimizer.lr=0.0015",
            "model.preset=small data.batch_size=32 training.optimizer.lr=0.002 data.crop=2",
            "model.layers=2 model.tokens=stem model.pool=attention data.batch_size=64 data.crop=2",
            "model.layers=4 model.dim=96 model.patch=4 training.optimizer.lr=0.001",
            "model.layers=2 model.dim=64 model.tokens=convolution model.pool=mean data.batch_size=16",
            "model=cnn model.dim=16 training.optimizer.lr=0.003 data.shift=0.1",
        ),
    ),
    "pairs": DataSet(
        "translation",
        "chrf",
        prepare_pairs,
        (
            "model.preset=small",
            "model.preset=small data.vocab_size=2000 data.max_batch_tokens=2048 training.optimizer.lr=0.003 "
            "model.dropout=0.3",
            "model.preset=small data.vocab_size=3000 data.max_batch_tokens=1024 training.optimizer.lr=0.002 "
            "model.dropout=0.2",
            "model.preset=small data.vocab_size=4000 training.optimizer.lr=0.005 model.dropout=0.3",
            "model.preset=tiny data.vocab_size=2000 data.max_batch_tokens=2048 training.optimizer.lr=0.002",
            "model=luong model.preset=small data.vocab_size=2000 data.max_batch_tokens=2048 "
            "training.optimizer.lr=0.003",
            "model.layers=1 model.dim=128 model.ffn_dim=256 model.heads=4 data.vocab_size=2000 "
            "training.optimizer.lr=0.004",
            "model.layers=2 model.dim=192 model.ffn_dim=384 model.heads=4 data.vocab_size=2000 "
            "training.optimizer.lr=0.002 model.dropout=0.3 data.max_batch_tokens=2048",
            "model.layers=3 model.dim=96 model.ffn_dim=192 model.heads=4 data.vocab_size=2500 "
            "training.optimizer.lr=0.003",
            "model.preset=small data.tokenizer=char data.max_batch_tokens=4096 training.optimizer.lr=0.003",
        ),
    ),
    "ratings": DataSet(
        "recommendation",
        "ndcg@10",
        prepare_ratings,
        (
            "model.preset=small",
            "model.layers=2 model.dim=64 model.heads=2 model.dropout=0.3 training.optimizer.lr=0.002",
            "model.layers=1 model.dim=64 model.dropout=0.3 data.batch_size=64",
            "model.layers=2 model.dim=96 model.heads=2 model.dropout=0.3 training.optimizer.lr=0.001",
            "model.layers=3 model.dim=64 model.heads=2 data.batch_size=16",
            "model=sasrec model.dim=64 model.dropout=0.3",
            "model=sasrec model.preset=small training.optimizer.lr=0.005",
            "model=sasrec data.loss=softmax model.layers=1 model.dim=96 data.batch_size=64 training.optimizer.lr=0.002",
            "model.preset=small data.batch_size=16 training.optimizer.lr=0.005",
            "model.layers=2 model.dim=128 model.heads=4 model.dropout=0.4 data.batch_size=32 "
            "training.optimizer.lr=0.001",
        ),
    ),
    "reviews": DataSet(
        "classification",
        "accuracy",
        prepare_reviews,
        (
            "model.preset=small",
            "model.dim=50 data.batch_size=64",
            "data.tokenizer=unigram data.vocab_size=16000 data.batch_size=128 model.embedding=128 "
            "model.dim=96 model.dropout=0.5",
            "data.tokenizer=unigram data.vocab_size=8000 data.batch_size=64 model.preset=small "
            "training.optimizer.lr=0.002",
            "data.tokenizer=bpe data.vocab_size=8000 data.batch_size=128 model.dropout=0.4",
            "model=flat_attention data.tokenizer=unigram data.vocab_size=8000 data.batch_size=128 model.dropout=0.5",
            "model=flat_attention model.preset=small data.batch_size=128",
            "data.tokenizer=char data.batch_size=64 model.dim=64",
            "data.tokenizer=unigram data.vocab_size=4000 data.batch_size=32 model.dropout=0.3",
            "data.tokenizer=bpe data.vocab_size=16000 data.batch_size=256 model.dropout=0.5 "
            "training.optimizer.lr=0.005",
        ),
    ),
    "tags": DataSet(
        "tagging",
        "f1",
        prepare_tags,
        (
            "model.preset=small",
            "model.layers=3 model.dim=128 model.ffn_dim=256 model.dropout=0.3 training.optimizer.lr=0.001",
            "model.layers=2 model.dropout=0.2 data.batch_size=16 training.optimizer.lr=0.002",
            "model.layers=2 model.dim=96 model.dropout=0.2 data.batch_size=64 training.optimizer.lr=0.003",
            "model.layers=1 model.dim=128 model.dropout=0.1 training.optimizer.lr=0.003",
            "model=bilstm_crf model.dropout=0.3",
            "model=bilstm_crf model.preset=small training.optimizer.lr=0.005",
            "model=bilstm_crf model.dim=100 data.batch_size=16 training.optimizer.lr=0.003",
            "model.preset=small model.output=softmax data.batch_size=64 training.optimizer.lr=0.005",
            "model.layers=4 model.dim=128 model.dropout=0.3 data.batch_size=32 training.optimizer.lr=0.001",
        ),
    ),
}


def train_and_score(name: str, settings: Sequence[str], run: Path, *, minutes: float) -> dict[str, Any]:
    """Train in a process of its own, then score the run on the test examples."""
    from regard.api.run import load

    shutil.rmtree(run, ignore_errors=True)
    data_set = SETS[name]
    command = [sys.executable, "-m", "regard", "train", data_set.task, *settings, f"training.minutes={minutes}"]
    started_at = time.monotonic()
    result = subprocess.run([*command, "--out", str(run)], capture_output=True, text=True, check=False)
    if result.returncode:
        return {"error": result.stderr.strip().splitlines()[-1] if result.stderr.strip() else str(result.returncode)}
    seconds = time.monotonic() - started_at
    loaded = load(run)
    return {
        "scores": {metric: round(value, 5) for metric, value in loaded.evaluate("test").items()},
        "seconds": round(seconds, 1),
        "steps": json.loads((run / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])["step"],
        "plan": [
            line for line in result.stderr.splitlines() if ": preset" in line or line.startswith(("planned", "warning"))
        ],
        "parameters": loaded.parameters,
    }


def measure(data: Path, out: Path, names: Sequence[str], *, minutes: float) -> None:
    """Train everything that is not in the log yet; the order of the settings is the same for all data sets."""
    log = out / "first_try.json"
    results: dict[str, Any] = json.loads(log.read_text(encoding="utf-8")) if log.exists() else {}
    for name in names:
        folder = out / "data" / name
        location = SETS[name].prepare(data, folder)
        attempts = {"first": ""} | {f"hand{i}": text for i, text in enumerate(SETS[name].by_hand, start=1)}
        for attempt, text in attempts.items():
            key = f"{name}/{attempt}/{minutes:g}"
            if key in results:
                continue
            row = train_and_score(name, [*location, *text.split()], out / "runs" / name / attempt, minutes=minutes)
            results[key] = {"settings": text, **row}
            log.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(key, row.get("error") or row["scores"].get(SETS[name].metric), flush=True)
            shutil.rmtree(out / "runs" / name / attempt, ignore_errors=True)


def page(out: Path) -> str:
    """Return a table: the first try, the best settings by hand, and their ratio."""
    results = json.loads((out / "first_try.json").read_text(encoding="utf-8"))
    lines = ["| data | metric | first try | best of ten by hand | ratio | within 5 % |", "|---|---|---|---|---|---|"]
    for name, data_set in SETS.items():
        rows = {
            key: row["scores"][data_set.metric]
            for key, row in results.items()
            if key.startswith(f"{name}/") and "scores" in row
        }
        first = [value for key, value in rows.items() if "/first/" in key]
        by_hand = [value for key, value in rows.items() if "/hand" in key]
        if first and by_hand:
            ratio = first[0] / max(by_hand)
            verdict = "yes" if ratio >= 1 - WITHIN else "no"
            cells = [name, data_set.metric, f"{first[0]:.4g}", f"{max(by_hand):.4g} of {len(by_hand)}", f"{ratio:.2f}"]
            lines.append(f"| {' | '.join([*cells, verdict])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", choices=sorted(SETS), action="append", dest="names")
    parser.add_argument("--minutes", type=float, default=1.5)
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    if not arguments.page:
        arguments.out.mkdir(parents=True, exist_ok=True)
        measure(arguments.data, arguments.out.resolve(), arguments.names or list(SETS), minutes=arguments.minutes)
    print(page(arguments.out))


if __name__ == "__main__":
    main()
