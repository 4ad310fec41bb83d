"""Splits are disjoint, complete and the same for the same seed, for every source."""

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import ConfigError, DataError
from regard.data.images.dataset import ImageSource, add_missing_splits, load_collection
from regard.data.images.loader import TargetShape


@pytest.fixture(autouse=True)
def separate_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def rows(collection):
    return {name: {image.tobytes() for image in images.all()[0]} for name, images in collection.splits.items()}


def test_digits_are_built_in():
    digits = load_collection(ImageSource())
    assert digits.classes == tuple("0123456789") and (digits.shape.height, digits.shape.channels) == (8, 1)
    assert {name: len(images) for name, images in digits.splits.items()} == {"train": 1439, "valid": 179, "test": 179}
    pixels, labels = digits.split("valid").take(np.array([3, 5]))
    assert pixels.shape == (2, 8, 8, 1) and labels.shape == (2,)
    splits = rows(digits)
    assert not splits["train"] & splits["test"] and not splits["train"] & splits["valid"]
    assert rows(load_collection(ImageSource())) == splits and rows(load_collection(ImageSource(seed=2))) != splits


def test_digits_of_another_size():
    digits = load_collection(ImageSource(target_shape=TargetShape(12, 10, 3, "pad")))
    assert digits.split("train").pixels.shape[1:] == (12, 10, 3)


def folder(path, names):
    random = np.random.default_rng(0)
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (3, 3), dtype=np.uint8)).save(path / name)
    return path


def test_existing_splits_stay_and_missing_ones_are_cut_off_train(tmp_path):
    names = [f"train/{label}/{index}.png" for label in "ab" for index in range(20)]
    path = folder(tmp_path / "images", [*names, "test/a/1.png"])
    collection = load_collection(ImageSource(path))
    assert {name: len(images) for name, images in collection.splits.items()} == {"train": 36, "valid": 4, "test": 1}
    folder(path, ["val/a/1.png"])
    assert {name: len(images) for name, images in load_collection(ImageSource(path)).splits.items()} == {
        "train": 40, "valid": 1, "test": 1,
    }  # fmt: skip


def test_entire_classes_are_held_out(tmp_path):
    path = folder(tmp_path / "images", [f"s{label}/{index}.png" for label in range(12) for index in range(3)])
    collection = load_collection(ImageSource(path, held_out="class"))
    classes = {name: set(images.all()[1].tolist()) for name, images in collection.splits.items()}
    assert not classes["train"] & classes["test"] and not classes["valid"] & classes["test"]
    assert set.union(*classes.values()) == set(range(12)) and all(classes.values())


def test_holding_out_classes_needs_classes(tmp_path):
    path = folder(tmp_path / "images", [f"{index}.png" for index in range(9)])
    with pytest.raises(ConfigError, match=r"^held_out='class': 0 classes cannot be divided among three splits$"):
        load_collection(ImageSource(path, held_out="class"))
    assert load_collection(ImageSource(path)).split("train").labels.tolist() == [-1] * 9


def test_equal_images_fall_into_one_split(tmp_path):
    path = tmp_path / "images"
    path.mkdir()
    for index in range(60):
        Image.new("L", (2, 2), index // 3).save(path / f"{index}.png")
    splits = rows(load_collection(ImageSource(path)))
    assert sum(map(len, splits.values())) == 20  # none of the 20 different images is in two splits


def test_a_changed_file_is_read_again(tmp_path):
    path = folder(tmp_path / "images", [f"{index}.png" for index in range(30)])
    before = rows(load_collection(ImageSource(path)))
    Image.new("L", (3, 3), 7).save(path / "0.png")
    assert rows(load_collection(ImageSource(path))) != before


def test_hugging_face_from_disk(tmp_path):
    datasets = pytest.importorskip("datasets")
    images = [Image.new("RGB", (4, 4), (index, 0, 0)) for index in range(20)]
    labels = datasets.ClassLabel(names=["dog", "cat"])
    features = datasets.Features({"image": datasets.Image(), "label": labels})
    table = datasets.Dataset.from_dict({"image": images, "label": [0, 1] * 10}, features=features)
    table.save_to_disk(str(tmp_path / "saved"))
    collection = load_collection(ImageSource(tmp_path / "saved"))
    assert collection.classes == ("cat", "dog") and sum(map(len, collection.splits.values())) == 20
    pixels, class_ids = collection.split("train").all()
    assert all((label == "dog") == (image[0, 0, 0] % 2 == 0) for image, label in
               zip(pixels, np.array(collection.classes)[class_ids], strict=True))  # fmt: skip


def test_unknown_names(tmp_path):
    with pytest.raises(ConfigError, match=r"^no data 'digit'; files are given as data.path=…; did you mean 'digits'\?"):
        load_collection(ImageSource(name="digit"))
    with pytest.raises(DataError, match="no such file or folder"):
        load_collection(ImageSource(tmp_path / "no"))
    with pytest.raises(DataError, match=r"^the data has no split 'tests'; did you mean 'test'\?$"):
        load_collection(ImageSource()).split("tests")


def test_too_few_to_split():
    keys = np.arange(4, dtype=np.uint64)
    with pytest.raises(DataError, match=r"^there are no training images; the splits are: test$"):
        add_missing_splits({"test": np.arange(2)}, keys)
    with pytest.raises(DataError, match=r"^2 images are too few to hold some out for test; give more$"):
        add_missing_splits({"train": np.arange(2)}, keys)
