"""The image cache returns the records that were read, and reads the source once."""

import json
import shutil

import numpy as np
import pytest

from regard.core.errors import DataError, FileError
from regard.data.images.cache import HEADER, load, load_or_build
from regard.data.images.loader import ImageReader, Record, TargetShape
from regard.data.images.resize import ImageShape

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 3, 2, 1), dtype=np.uint8)


def reader():
    result = ImageReader(TargetShape())
    result.shape = ImageShape(3, 2, 1)
    result.remarks.add("odd", "a")
    return result


def read(labels=("s10", "s2", None, "s2"), splits=(None, "train", "test", "valid")):
    return iter([Record(*row) for row in zip(splits, labels, PIXELS, strict=True)])


def test_round_trip(tmp_path):
    images = load_or_build(reader(), read, key="k", folder=tmp_path / "new")
    assert (images.pixels == PIXELS).all() and isinstance(images.pixels, np.memmap)
    assert images.classes == ("s2", "s10") and images.labels.tolist() == [1, 0, -1, 0]
    assert images.splits.tolist() == [0, 1, 3, 2] and images.shape == ImageShape(3, 2, 1)
    assert images.remarks == ("a: odd",)


def test_the_source_is_read_once(tmp_path):
    load_or_build(reader(), read, key="k", folder=tmp_path)
    again = load_or_build(reader(), lambda: pytest.fail("read again"), key="k", folder=tmp_path)
    assert len(again.pixels) == 4 and len(list(tmp_path.iterdir())) == 1


def test_a_failed_write_leaves_nothing(tmp_path):
    def broken():
        yield from read()
        raise DataError("the disk caught fire")

    with pytest.raises(DataError, match="the disk caught fire"):
        load_or_build(reader(), broken, key="k", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_created(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match=r"k: could not be written \(Not a directory\)$"):
        load_or_build(reader(), read, key="k", folder=tmp_path / "file")


@pytest.mark.parametrize("name", [HEADER, "pixels", "labels", "splits"])
def test_damage_is_detected(tmp_path, name):
    load_or_build(reader(), read, key="k", folder=tmp_path)
    for damaged in (b"", (tmp_path / "k" / name).read_bytes()[:-1]):
        shutil.copytree(tmp_path / "k", tmp_path / "copy")
        (tmp_path / "copy" / name).write_bytes(damaged)
        with pytest.raises(
            DataError, match=r"damaged or of another version; delete this folder, and it is created again$"
        ):
            load(tmp_path / "copy")
        shutil.rmtree(tmp_path / "copy")


def test_another_version(tmp_path):
    load_or_build(reader(), read, key="k", folder=tmp_path)
    header = tmp_path / "k" / HEADER
    header.write_text(json.dumps(json.loads(header.read_text()) | {"version": 99}), encoding="utf-8")
    with pytest.raises(DataError, match="of another version"):
        load(tmp_path / "k")
