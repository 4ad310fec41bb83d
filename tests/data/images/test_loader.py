"""Images of any source are converted to one shape; conversions and unreadable files are reported once."""

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import DataError
from regard.data.images.loader import ImageReader, Remarks, TargetShape, as_target_shape
from regard.data.images.resize import ImageShape


def save(path, size=(4, 4), mode="L", value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value,) * len(mode)).save(path)


def test_the_first_image_sets_the_missing_sizes(tmp_path):
    save(tmp_path / "a" / "1.png", mode="RGB")
    save(tmp_path / "b" / "1.png", mode="L")
    reader = ImageReader(TargetShape())
    records = list(reader.read(tmp_path))
    assert reader.shape == ImageShape(4, 4, 3) and [record.label for record in records] == ["a", "b"]
    assert all(record.pixels.shape == (4, 4, 3) for record in records)


def test_other_sizes_need_a_size(tmp_path):
    save(tmp_path / "1.png")
    save(tmp_path / "2.png", size=(5, 6))
    save(tmp_path / "3.png", size=(7, 6))
    with pytest.raises(DataError, match=r"2.png: 6x5 pixels, but earlier images have 4x4; set the size to which all"):
        list(ImageReader(TargetShape()).read(tmp_path))
    reader = ImageReader(TargetShape(8, 8))
    assert [record.pixels.shape for record in reader.read(tmp_path)] == [(8, 8, 1)] * 3
    assert reader.remarks.lines() == [f"3 images ({tmp_path / '1.png'} …): another size: resized to 8x8"]


def test_unreadable_images_are_skipped_and_reported(tmp_path):
    for index in range(3):
        save(tmp_path / f"{index}.png", mode="RGBA")
    for name in ("3.png", "4.png"):
        (tmp_path / name).write_bytes(b"hello")
    reader = ImageReader(TargetShape())
    assert len(list(reader.read(tmp_path))) == 3
    assert reader.remarks.lines() == [
        f"3 images ({tmp_path / '0.png'} …): transparent: placed on a white background",
        f"{tmp_path / '3.png'}: not an image that Pillow can read; give PNG, JPEG, PGM …: "
        "skipped (2 images cannot be read)",
    ]


def test_nothing_to_read(tmp_path):
    with pytest.raises(DataError, match=r"no: no such file or folder; give images, a folder or an archive of them$"):
        list(ImageReader(TargetShape()).read(tmp_path / "no"))
    with pytest.raises(DataError, match=r": contains no images; give PNG, JPEG, PGM …, idx or .npz files"):
        list(ImageReader(TargetShape()).read(tmp_path))
    (tmp_path / "1.png").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"1.png: not an image that Pillow can read"):
        list(ImageReader(TargetShape()).read(tmp_path))
    np.savez(tmp_path / "a.npz", images=np.zeros((0, 4, 4), np.uint8))
    with pytest.raises(DataError, match=r"a.npz: images: contains no images$"):
        list(ImageReader(TargetShape()).read(tmp_path / "a.npz"))


def test_arrays(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (1500, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x_train=pixels, y_train=np.arange(1500) % 12)
    records = list(ImageReader(TargetShape()).read(tmp_path / "a.npz"))
    assert (np.stack([record.pixels for record in records])[..., 0] == pixels).all()
    assert records[11].label == "11" and records[0].split == "train"
    reader = ImageReader(TargetShape(8, 8, 3, "pad"))
    assert next(iter(reader.read(tmp_path))).pixels.shape == (8, 8, 3)


def test_a_shape_can_be_requested_again():
    shape = ImageShape(4, 5, 3, "pad", 9)
    assert as_target_shape(shape).resolve(Image.new("L", (9, 9))) == shape


def test_remarks_count():
    remarks = Remarks()
    for where in ("a", "b", "c"):
        remarks.add("odd", where)
    remarks.add("even", "d")
    assert remarks.lines() == ["3 images (a …): odd", "d: even"]
