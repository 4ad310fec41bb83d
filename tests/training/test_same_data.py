"""Resuming requires unchanged data: a change in any split is refused and named."""

from __future__ import annotations

import shutil

import pytest

from regard.core.errors import DataError
from regard.data.builtin import english_korean
from regard.training import recipe as recipes
from regard.training.console import SilentConsole
from regard.training.train import resume, train

TINY = ["model=transformer", "model.layers=1", "model.dim=8", "model.ffn_dim=8", "model.heads=1",
        "data.max_batch_tokens=256", "data.vocab_size=250", "training.evaluation.every=1000",
        "training.files.save_every=1", "decoding=greedy"]  # fmt: skip


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    """Data files, and runs that stopped in the middle and at the end of an epoch."""
    folder = tmp_path_factory.mktemp("data")
    for split, count in (("train", 40), ("valid", 4), ("test", 4)):
        pairs = english_korean.generate(split, count, seed=1)
        for code, lines in (("en", [p.source for p in pairs]), ("ko", [p.target for p in pairs])):
            (folder / f"{split}.{code}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = [*TINY, f"data.path={folder}"]
    for name, budget in (("middle", "training.steps=2"), ("end", "training.epochs=1")):
        train(
            recipes.read("translation", settings=[*settings, budget]), folder / "runs" / name, console=SilentConsole()
        )
    return folder


def swap(folder):
    for split in ("train", "valid", "test"):
        source, target = folder / f"{split}.en", folder / f"{split}.ko"
        content = source.read_bytes()
        source.write_bytes(target.read_bytes())
        target.write_bytes(content)


def reverse(folder):
    lines = (folder / "train.en").read_text(encoding="utf-8").splitlines()
    lines[17] = " ".join(reversed(lines[17].split()))
    (folder / "train.en").write_text("\n".join(lines) + "\n", encoding="utf-8")


def delete(folder):
    for code in ("en", "ko"):
        (folder / f"test.{code}").unlink()


@pytest.mark.parametrize("name", ["middle", "end"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (swap, "test has other content, train has other content, valid has other content; restore the data"),
        (reverse, "was started: train has other content; restore the data, or start a new run"),
        (delete, "was started: test is no longer there"),
    ],
)
def test_data_that_changed_is_refused(data_folder, name, change, words):
    contents = {path: path.read_bytes() for path in data_folder.iterdir() if path.is_file()}
    run = data_folder / "runs" / f"{name}-{change.__name__}"
    shutil.copytree(data_folder / "runs" / name, run)
    longer = ["training.steps=none", "training.epochs=2"]
    try:
        change(data_folder)
        with pytest.raises(DataError, match=words):
            resume(run, longer, console=SilentConsole())
    finally:
        for path, content in contents.items():
            path.write_bytes(content)
    resume(run, longer, console=SilentConsole())  # other modification times are not a change
