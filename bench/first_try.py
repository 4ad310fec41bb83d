"""Does the first try on own data come close to settings chosen by hand? Five data sets, ten settings each, equal time.

    python bench/first_try.py DATA OUT                    # DATA: the folder of real data sets; OUT: files, results
    python bench/first_try.py DATA OUT --set reviews      # one data set; also the sets of TUNING
    python bench/first_try.py DATA OUT --set reviews --attempt first        # one of its attempts
    python bench/first_try.py DATA OUT --set tune_pairs --try "data.vocab_size=2000"  # other settings, not stored
    python bench/first_try.py DATA OUT --page docs/training.md              # write the table

Each data set is written as a user would have it (a CSV file, a folder of PNG images). `first` is `regard train TASK
data.path=… training.minutes=M` and nothing else; `hand1` … `hand10` set sizes, vocabularies, learning rates and models
by hand. All are trained for M minutes of processor time of one thread, so that other work on the machine changes
nothing, and are scored on the same test examples. Each attempt has a file in OUT/results for each seed and is not
repeated; the table has the mean. The rules of training/plan.py were chosen on the sets of `TUNING`; the table shows the
others.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import itertools
import json
import lzma
import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from page_sections import put

WITHIN = 0.05  # relative difference from the best settings that counts as close


class DataSet(NamedTuple):
    """A data set of a user, and ten ways to train on it that a user may choose."""

    title: str
    task: str
    metric: str
    prepare: Callable[[Path, Path], list[str]]  # data folder, output folder -> settings that name the data
    by_hand: tuple[str, ...]
    seeds: tuple[int, ...] = (1,)  # several if the test examples are so few that one training is mostly noise


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


def prepare_tatoeba(data: Path, out: Path) -> list[str]:
    """3,000 sentence pairs of Tatoeba, English and Korean."""
    for split, count in (("train", 3_000), ("valid", 300), ("test", 322)):
        with gzip.open(data / "ko_en_tatoeba" / f"{split}.tsv.gz", "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t")[:2] for line in file]
        write_table(out / f"{split}.csv", ("en", "ko"), sample(rows, count))
    return [f"data.path={out}"]


def prepare_multi30k(data: Path, out: Path) -> list[str]:
    """10,000 captions of Multi30k, German and English."""
    for split, stem, count in (("train", "train", 10_000), ("valid", "val", 500), ("test", "test_2016_flickr", 500)):
        sides = [
            gzip.decompress((data / "multi30k" / f"{stem}.{language}.gz").read_bytes()).decode().splitlines()
            for language in ("de", "en")
        ]
        write_table(out / f"{split}.csv", ("de", "en"), sample(list(zip(*sides, strict=True)), count))
    return [f"data.path={out}", "data.source=de", "data.target=en"]


def prepare_reviews(data: Path, out: Path, *, count: int = 50_000) -> list[str]:
    """Korean film reviews of NSMC."""
    files = {
        "train": ("train_rebuilt", count),
        "valid": ("valid_rebuilt", 2_000),
        "test": ("official_test_part", 2_500),
    }
    for split, (name, size) in files.items():
        with lzma.open(data / "nsmc" / f"{name}.tsv.xz", "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file][1:]
        chosen = sample([row for row in rows if len(row) == 3 and row[1].strip()], size)
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
    splits = {"train": blocks["train_first5000"], "valid": dev[:600], "test": dev[600:1_600]}
    for split, sentences in splits.items():
        (out / f"{split}.tsv").write_text("\n\n".join(sentences) + "\n\n", encoding="utf-8")
    return [f"data.path={out}"]


def prepare_wnut(data: Path, out: Path) -> list[str]:
    """3,394 tagged English messages of WNUT-17."""
    out.mkdir(parents=True, exist_ok=True)
    for split, name in (("train", "train"), ("valid", "valid"), ("test", "test.first_half")):
        (out / f"{split}.conll").write_bytes(gzip.decompress((data / "wnut17" / f"{name}.conll.gz").read_bytes()))
    return [f"data.path={out}"]


def prepare_klp(data: Path, out: Path) -> list[str]:
    """2,928 tagged Korean sentences of KLP 2016; the units are morphemes."""
    out.mkdir(parents=True, exist_ok=True)
    for split, name in (("train", "train"), ("valid", "dev"), ("test", "test.first_half")):
        (out / f"{split}.txt").write_bytes(gzip.decompress((data / "ko_ner_klp2016" / f"ner.{name}.gz").read_bytes()))
    return [f"data.path={out}"]


def prepare_photos(data: Path, out: Path) -> list[str]:
    """2,000 images of CIFAR-10 as JPEG files, in one folder for each class."""
    for split, name, every, first in (
        ("train", "train_0", 5, 0),
        ("valid", "train_1", 20, 0),
        ("test", "train_1", 5, 1),
    ):
        with tarfile.open(data / "cifar10_jpeg" / f"{name}.tar.xz") as archive:
            members = [member for member in archive.getmembers() if member.isfile()]
            for member in members[first::every]:
                path = out / split / Path(member.name).parent.name / Path(member.name).name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(cast("io.BufferedReader", archive.extractfile(member)).read())
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


def prepare_ratings(data: Path, out: Path, *, last: bool = True) -> list[str]:
    """The last 50,000 ratings of MovieLens 100K, about 53 of each user; or the first 20,000, about 21 of each."""
    with gzip.open(data / "ml-100k" / "train.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.split() for line in file]
    by_user: dict[str, list[list[str]]] = {}
    for row in sorted(rows, key=lambda row: int(row[3])):
        by_user.setdefault(row[0], []).append(row)
    selected = [row for user in by_user.values() for row in (user[-70:] if last else user[:22])][:50_000]
    write_table(out / "ratings.csv", ("user", "item", "rating", "time"), selected)
    return [f"data.path={out / 'ratings.csv'}"]


SETS = {
    "images": DataSet(
        "500 images (MNIST)",
        "image_classification",
        "accuracy",
        prepare_images,
        (
            "model.layers=2 model.tokens=stem model.pool=attention data.batch_size=32 data.crop=2 "
            "training.optimizer.name=muon training.optimizer.lr=0.003 training.optimizer.weight_decay=0.05",
            "model.preset=cct",
            "model=cnn model.dim=32",
            "model=cnn model.dim=24 data.crop=2 data.batch_size=32",
            "model.preset=cct data.crop=2 data.shift=0.1 training.optimizer.lr=0.0015",
            "model.preset=small data.batch_size=32 training.optimizer.lr=0.002 data.crop=2",
            "model.layers=2 model.tokens=stem model.pool=attention data.batch_size=64 data.crop=2",
            "model.layers=4 model.dim=96 model.patch=4 training.optimizer.lr=0.001",
            "model.layers=2 model.dim=64 model.tokens=convolution model.pool=mean data.batch_size=16",
            "model=cnn model.dim=16 training.optimizer.lr=0.003 data.shift=0.1",
        ),
    ),
    "pairs": DataSet(
        "10,000 sentence pairs (Multi30k)",
        "translation",
        "chrf",
        prepare_multi30k,
        (
            "model.preset=small data.vocab_size=3000 data.max_batch_tokens=2048 model.dropout=0.2 "
            "training.optimizer.name=muon training.optimizer.lr=0.01",
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
        "50,000 ratings (MovieLens)",
        "recommendation",
        "ndcg@10",
        prepare_ratings,
        (
            "model.layers=1 model.dim=64 model.dropout=0.3 data.batch_size=32 "
            "training.optimizer.name=muon training.optimizer.lr=0.003",
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
        seeds=(1, 2, 3),
    ),
    "reviews": DataSet(
        "50,000 reviews (NSMC)",
        "classification",
        "accuracy",
        prepare_reviews,
        (
            "data.tokenizer=unigram data.vocab_size=8000 data.batch_size=128 model.preset=small "
            "training.optimizer.name=muon training.optimizer.lr=0.003",
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
        "5,000 tagged sentences (KLUE)",
        "tagging",
        "f1",
        prepare_tags,
        (
            "model.layers=2 model.dim=128 model.ffn_dim=256 model.dropout=0.2 data.batch_size=32 "
            "training.optimizer.name=muon training.optimizer.lr=0.004",
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


TUNING = {
    "tune_images": DataSet("2,000 photos", "image_classification", "accuracy", prepare_photos, ()),
    "tune_pairs": DataSet("3,000 sentence pairs", "translation", "chrf", prepare_tatoeba, SETS["pairs"].by_hand),
    "tune_ratings": DataSet("20,000 ratings", "recommendation", "ndcg@10", partial(prepare_ratings, last=False), ()),
    "tune_reviews": DataSet("5,000 reviews", "classification", "accuracy", partial(prepare_reviews, count=5_000), ()),
    "tune_tags": DataSet("3,394 tagged messages", "tagging", "f1", prepare_wnut, ()),
    "tune_tags_ko": DataSet("2,928 tagged Korean sentences", "tagging", "f1", prepare_klp, ()),
}
ALL = SETS | TUNING

# `training.minutes` counts the monotonic clock. In the processes of this bench that clock is the time of the processor.
TRAIN = "import sys, time, torch, regard.cli.main; time.monotonic = time.process_time; regard.cli.main.main()"


def train_and_score(data_set: DataSet, settings: Sequence[str], run: Path, *, minutes: float) -> dict[str, Any]:
    """Train with one thread in a process of its own, then score the run on the test examples."""
    from regard.api.run import load

    shutil.rmtree(run, ignore_errors=True)
    command = [sys.executable, "-c", TRAIN, "train", data_set.task, *settings, f"training.minutes={minutes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run([*command, "--out", str(run)], capture_output=True, text=True, check=False, env=environment)
    if result.returncode:
        return {"error": result.stderr.strip().splitlines()[-1] if result.stderr.strip() else str(result.returncode)}
    loaded = load(run)
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return {
        "scores": {metric: round(value, 5) for metric, value in loaded.evaluate("test").items()},
        "steps": rows[-1]["step"],
        "valid": [row["valid"] for row in rows if "valid" in row],
        "plan": [
            line for line in result.stderr.splitlines() if ": preset" in line or line.startswith(("planned", "warning"))
        ],
        "parameters": loaded.parameters,
    }


def measure(data: Path, out: Path, name: str, *, attempts: Sequence[str], minutes: float) -> None:
    """Train the attempts that have no result yet."""
    data_set = ALL[name]
    location = data_set.prepare(data, out / "data" / f"{name}-{os.getpid()}")
    settings = {"first": ""} | {f"hand{i}": text for i, text in enumerate(data_set.by_hand, start=1)}
    (out / "results").mkdir(parents=True, exist_ok=True)
    for attempt, seed in itertools.product(attempts or settings, data_set.seeds):
        path = out / "results" / f"{name}-{attempt}-{seed}.json"
        if path.exists():
            continue
        run = out / "runs" / f"{name}-{attempt}-{seed}"
        words = [*location, *settings[attempt].split(), f"seed={seed}"]
        row = train_and_score(data_set, words, run, minutes=minutes)
        row = {"settings": settings[attempt], "seed": seed, "minutes": minutes, **row}
        path.write_text(json.dumps(row, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(name, attempt, seed, row.get("error") or row["scores"].get(data_set.metric), flush=True)
        shutil.rmtree(run, ignore_errors=True)


def read_scores(out: Path, name: str) -> tuple[dict[str, float], dict[str, str]]:
    """Return the mean score of each attempt over its seeds, and its settings."""
    scores: dict[str, list[float]] = {}
    settings: dict[str, str] = {}
    for path in sorted((out / "results").glob(f"{name}-*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        attempt = path.stem.removeprefix(f"{name}-").rpartition("-")[0]
        settings[attempt] = row["settings"]
        if "scores" in row:
            scores.setdefault(attempt, []).append(row["scores"][ALL[name].metric])
    return {attempt: statistics.fmean(values) for attempt, values in scores.items()}, settings


def table(out: Path) -> str:
    """Return a table: the first try, the best settings by hand, and their ratio."""
    lines = [
        "| data | metric | first try | best by hand | its settings | ratio | within 5 % |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, data_set in SETS.items():
        scores, settings = read_scores(out, name)
        by_hand = {attempt: score for attempt, score in scores.items() if attempt != "first"}
        if "first" not in scores or not by_hand:
            continue
        best = max(by_hand, key=lambda attempt: by_hand[attempt])
        ratio = scores["first"] / by_hand[best]
        values = [f"{scores['first']:.4g}", f"{by_hand[best]:.4g} of {len(by_hand)}", f"`{settings[best]}`"]
        seeds = f", {len(data_set.seeds)} seeds" if len(data_set.seeds) > 1 else ""
        metric = f"{data_set.metric}{seeds}"
        verdict = "yes" if ratio >= 1 - WITHIN else "no"
        lines.append(f"| {' | '.join([data_set.title, metric, *values, f'{ratio:.2f}', verdict])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", choices=sorted(ALL), action="append", dest="names")
    parser.add_argument("--attempt", action="append", dest="attempts", default=[])
    parser.add_argument("--try", action="append", dest="settings", default=[])
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    for name in arguments.names or (() if arguments.page else SETS):
        for text in arguments.settings:
            location = ALL[name].prepare(arguments.data, out / "data" / f"{name}-{os.getpid()}")
            run = out / "runs" / f"{name}-try-{os.getpid()}"
            row = train_and_score(ALL[name], [*location, *text.split()], run, minutes=arguments.minutes)
            print(name, repr(text), json.dumps(row, ensure_ascii=False), flush=True)
        if not arguments.settings:
            measure(arguments.data, out, name, attempts=arguments.attempts, minutes=arguments.minutes)
    if arguments.page:
        put(arguments.page, "first-try", table(out), command="python bench/first_try.py DATA OUT")


if __name__ == "__main__":
    main()
