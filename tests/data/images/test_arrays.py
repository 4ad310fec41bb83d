"""idx and .npz files are read, and invalid ones are refused with a clear message."""

import gzip
import struct

import numpy as np
import pytest

from regard.core.errors import DataError
from regard.data.images.arrays import is_idx, read_idx, read_npz


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("stem", "split"), [("train", "train"), ("t10k", "test"), ("t10k-first5000", "test")])
def test_idx(tmp_path, images, packed, stem, split):
    for kind, array in (("images-idx3", images), ("labels-idx1", np.arange(5, dtype=np.uint8))):
        path = tmp_path / f"{stem}-{kind}-ubyte{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    path = next(path for path in tmp_path.iterdir() if is_idx(path))
    block = read_idx(path)
    assert block.split == split and (block.pixels[..., 0] == images).all() and block.labels.tolist() == [0, 1, 2, 3, 4]


def test_idx_without_labels_and_with_too_few(tmp_path, images):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(idx(images))
    assert read_idx(path).labels is None
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(4, np.uint8)))
    with pytest.raises(DataError, match=r"5 images but 4 labels; they must belong together$"):
        read_idx(path)


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:3], lambda d: b"", lambda d: b"\1" + d[1:]])
def test_damaged_idx(tmp_path, images, damage):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(damage(idx(images)))
    with pytest.raises(DataError, match=r"not an idx file of bytes, or truncated \(.*\); download it again$"):
        read_idx(path)
    path.with_name("t-images-idx3.gz").write_bytes(b"hello")
    with pytest.raises(DataError, match="not an idx file"):
        read_idx(path.with_name("t-images-idx3.gz"))


def test_labels_in_place_of_images(tmp_path):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(idx(np.zeros(4, np.uint8)))
    with pytest.raises(DataError, match=r"1 axes, but images have 3; is it the file of labels\?$"):
        read_idx(path)


@pytest.mark.parametrize("names", [("x_train", "y_train"), ("train_images", "train_labels")])
def test_npz(tmp_path, images, names):
    np.savez(tmp_path / "a.npz", **{names[0]: images, names[1]: np.arange(5)[:, None], "x_test": images[:2]})
    train, test = read_npz(tmp_path / "a.npz")
    assert (
        train.split == "train" and (train.pixels[..., 0] == images).all() and train.labels.tolist() == [0, 1, 2, 3, 4]
    )
    assert test.split == "test" and len(test.pixels) == 2 and test.labels is None


@pytest.mark.parametrize("scale", [1.0, 1 / 255])
def test_npz_of_floats(tmp_path, images, scale):
    np.savez(tmp_path / "a.npz", images=(images * scale).astype(np.float32)[..., None])
    assert (next(read_npz(tmp_path / "a.npz")).pixels[..., 0] == images).all()


def test_npz_that_is_not_images(tmp_path, images):
    def refused(match, **arrays):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(DataError, match=match):
            list(read_npz(tmp_path / "a.npz"))

    refused(r"no array of images \(n h w\) or \(n h w c\) such as x_train; found weights$", weights=images)
    refused(r"images is int64 outside 0 … 255; give brightness as bytes", images=images.astype(np.int64) * 300)
    refused(r"images is complex128 outside 0 … 255", images=images * 1j)
    refused(r"images has 4 channels in its last axis; give 1 \(grey\) or 3 \(colour\)$", images=np.zeros((2, 3, 3, 4)))
    refused(r"5 images but 2 labels", images=images, labels=[0, 1])
    refused(r"not a \.npz file of plain arrays \(.*\); save it with np.savez$", images=np.array([{}], dtype=object))
    (tmp_path / "b.npz").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"not a \.npz file of plain arrays"):
        list(read_npz(tmp_path / "b.npz"))


def test_npz_labels_must_be_integers(tmp_path, images):
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(5.0))
    assert next(read_npz(tmp_path / "a.npz")).labels.tolist() == [0, 1, 2, 3, 4]
    for labels in (np.array(["cat"] * 5), np.arange(5) / 2):
        np.savez(tmp_path / "a.npz", images=images, labels=labels)
        with pytest.raises(DataError, match=r"a\.npz: labels must be integers, not \S+; number the classes from 0$"):
            next(read_npz(tmp_path / "a.npz"))


def test_npz_with_an_unknown_compression(tmp_path, images):
    np.savez(tmp_path / "a.npz", images=images)
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[8] = data[data.find(b"PK\x01\x02") + 10] = 99  # compression method, in the entry and in the directory
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(DataError, match=r"a\.npz: not a \.npz file of plain arrays"):
        next(read_npz(tmp_path / "a.npz"))
