"""Datasets of images: what is refused, and how (that they are read is tested with the collection)."""

import pytest

from regard.core.errors import DataError
from regard.data import huggingface_images

datasets = pytest.importorskip("datasets")


def test_a_folder_that_is_no_dataset(tmp_path):
    (tmp_path / "state.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="not a saved dataset that can be read: "):
        list(huggingface_images.read_saved(tmp_path))


def test_no_images_and_no_split(tmp_path):
    table = datasets.Dataset.from_dict({"text": ["a"]})
    table.save_to_disk(str(tmp_path / "a"))
    with pytest.raises(DataError, match=r"train: no column holds images; known: text$"):
        list(huggingface_images.read_saved(tmp_path / "a"))
    datasets.DatasetDict({"other": table}).save_to_disk(str(tmp_path / "b"))
    with pytest.raises(DataError, match=r"no split named train, valid or test; found other$"):
        list(huggingface_images.read_saved(tmp_path / "b"))


def test_a_file_that_is_gone(tmp_path, monkeypatch):
    features = datasets.Features({"image": datasets.Image(decode=False)})
    rows = {"image": [{"path": str(tmp_path / "gone.png"), "bytes": None}]}
    table = datasets.Dataset.from_dict(rows, features=features)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_: {"train": table})
    with pytest.raises(DataError, match=r"^hf:a/b train:1: .*gone.png: No such file or directory$"):
        list(huggingface_images.read_from_hub("hf:a/b"))


def test_a_name_that_cannot_be_loaded(monkeypatch):
    def refuse(*_):
        raise ValueError("no such dataset\nand more")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(DataError, match=r"^hf:a/b: cannot be loaded: no such dataset$"):
        list(huggingface_images.read_from_hub("hf:a/b"))
