"""Corrupted text data: tables of pairs and of documents with labels, tagged sentences, plain text."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from fuzz_cases import Case, mutate
from fuzz_cases.calling import call
from regard.data.builtin import english_korean
from regard.training import recipe as recipes

COUNT = 24
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "cp949", "latin-1")
TAGS = ("B-PER", "O", "I-PER", "O", "B-LOC", "O")


class Kind:
    """Tables as people save them, and worse."""

    def prepare(self, work: Path) -> None:
        pairs = english_korean.generate("train", COUNT, seed=3)
        en, ko = [pair.source for pair in pairs], [pair.target for pair in pairs]
        labels = ["good" if index % 2 else "bad" for index in range(COUNT)]
        rows = list(zip(en, ko, labels, strict=True))
        conll = "\n".join(
            "".join(f"{word}\t{tag}\n" for word, tag in zip(text.split(), TAGS, strict=False)) for text in en
        )
        translation = ["data.source=en", "data.target=ko", "data.vocab_size=300"]
        self.samples: list[tuple[str, str, str, list[str]]] = [  # task, name of the file, content, settings
            ("translation", "train.tsv", _table("en\tko", (f"{a}\t{b}" for a, b, _ in rows)), translation),
            ("translation", "train.csv", _table("en,ko", (f'"{a}","{b}"' for a, b, _ in rows)), translation),
            (
                "translation",
                "train.jsonl",
                _table(None, (json.dumps({"en": a, "ko": b}) for a, b, _ in rows)),
                translation,
            ),
            ("translation", "train.en", _table(None, en), translation),
            ("classification", "train.tsv", _table("label\ttext", (f"{c}\t{a}" for a, _, c in rows)), []),
            ("classification", "train.csv", _table("label,text", (f'{c},"{a}"' for a, _, c in rows)), []),
            (
                "classification",
                "train.jsonl",
                _table(None, (json.dumps({"label": c, "text": a}) for a, _, c in rows)),
                [],
            ),
            ("tagging", "train.conll", conll, []),
            (
                "language",
                "plain.txt",
                "\n".join(en) * 3,
                ["data.vocab_size=300", "data.context=8", "data.batch_size=2"],
            ),
        ]
        self.beside = _table(None, ko)

    def make(self, rng: random.Random, folder: Path) -> Case:
        task, name, content, settings = rng.choice(self.samples)
        data = content.encode()
        encoding = rng.choices(ENCODINGS, [80, 5, 5, 5, 5])[0]
        if encoding != "utf-8":
            data = content.encode(encoding, errors="replace")
        if rng.random() < 0.9:
            data = mutate.data(rng, data)
        if rng.random() < 0.3:
            lines = data.split(b"\n")
            target = rng.randrange(len(lines))
            lines[target] = rng.choice(
                [b"", b"\t" * 50, b'"', b"," * 40, b"x" * 100_000, b"a b " * 9000, b'{"en": 5}', b"[]"]
            )
            data = b"\n".join(lines)
        path, name, change = _place(rng, folder / "data", name, data)
        if name.endswith(".en"):
            (path / "train.ko").write_text(self.beside, encoding="utf-8")
        what = f"{task} {name} {encoding}{change}"
        if rng.random() < 0.25:
            return Case(f"{what} -> data check", lambda: call("data", "check", str(path)))
        where = f"data.paths=[{str(path / name)!r}]" if task == "language" else f"data.path={path}"
        return Case(f"{what} -> build", lambda: _build(task, [where, *settings]))


def _table(header: str | None, rows: Any) -> str:
    return "\n".join([*([header] if header else []), *rows]) + "\n"


def _place(rng: random.Random, path: Path, name: str, data: bytes) -> tuple[Path, str, str]:
    """Write the file in its folder; sometimes compressed, in an archive, or with another name."""
    path.mkdir()
    how = rng.random()
    if how < 0.06:
        packed = gzip.compress(data, 1)
        (path / f"{name}.gz").write_bytes(mutate.data(rng, packed) if rng.random() < 0.5 else packed)
        return path, f"{name}.gz", " packed"
    if how < 0.12:
        archive = _archive(rng, name, data)
        (path / archive[0]).write_bytes(mutate.data(rng, archive[1]) if rng.random() < 0.5 else archive[1])
        return path, archive[0], " in an archive"
    if how < 0.15:
        name = rng.choice(["x", "train", "TRAIN.TSV", "train.xlsx", "-.csv", "a\nb.tsv", ".tsv", "train.tsv.tsv"])
    (path / name).write_bytes(data)
    return path, name, ""


def _archive(rng: random.Random, name: str, data: bytes) -> tuple[str, bytes]:
    """Return class folders in a zip or tar file, with names outside the folder and false sizes."""
    names = [f"train/good/{name}.txt", f"train/bad/{name}.txt", "../outside/file", "/etc/x.txt", "a/../../x.txt"]
    target = io.BytesIO()
    if rng.random() < 0.5:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
            for inner in rng.sample(names, rng.randrange(1, 5)):
                packed.writestr(inner, data if rng.random() < 0.95 else bytes(50_000_000))
        return "data.zip", target.getvalue()
    with tarfile.open(fileobj=target, mode="w:gz") as packed:
        for inner in rng.sample(names, rng.randrange(1, 5)):
            member = tarfile.TarInfo(inner)
            member.size = len(data)
            member.type = rng.choices(
                [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE], [85, 5, 5, 5]
            )[0]
            member.linkname = "../outside/file"
            packed.addfile(member, io.BytesIO(data))
    return "data.tar.gz", target.getvalue()


def _build(task: str, settings: list[str]) -> None:
    """Run what training does before its first step: read, build a vocabulary, plan, collate a batch."""
    choice = recipes.read(task, settings=settings).task
    built = choice.module("tasks").build(choice.config)
    batches = built.epoch_batches(0, 1)
    if len(batches):
        built.collate(batches[0])
