"""The check of images reports problems by file."""

import io

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import DataError
from regard.data.checks.images import check


def save(path, value, size=(8, 8), mode="L"):
    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(value)
    Image.fromarray(random.integers(0, 256, size, dtype=np.uint8)).convert(mode).save(path)


def kinds(path):
    return sorted((finding.kind, finding.file.name) for finding in check(path))


def test_valid_images_have_no_findings(tmp_path):
    for index in range(6):
        save(tmp_path / "train" / "ab"[index % 2] / f"{index}.png", index)
    assert check(tmp_path) == []


def test_unreadable_truncated_and_converted(tmp_path):
    for index in range(4):
        save(tmp_path / f"{index}.png", index)
    save(tmp_path / "alpha.png", 9, mode="LA")
    (tmp_path / "text.png").write_bytes(b"hello")
    target = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 50), dtype=np.uint8)).save(target, format="JPEG")
    (tmp_path / "cut.jpg").write_bytes(target.getvalue()[:1000])
    assert kinds(tmp_path) == [("converted", "alpha.png"), ("truncated", "cut.jpg"), ("unreadable", "text.png")]
    assert [f.level for f in check(tmp_path)].count("error") == 2


def test_the_same_image_in_two_splits_or_classes(tmp_path):
    for name in ("test/a/1.png", "train/a/2.png", "train/b/3.png"):
        save(tmp_path / name, 5)
    save(tmp_path / "train/a/4.png", 1)
    findings = check(tmp_path)
    assert [finding.kind for finding in findings] == ["repeated", "repeated"]
    assert findings[0].text == f"the same image is in {tmp_path / 'test/a/1.png'}"
    (tmp_path / "test/a/1.png").unlink()
    save(tmp_path / "test/a/1.png", 77)
    assert [f.text.endswith("as another class") for f in check(tmp_path)] == [True]


def test_unbalanced_classes_and_unusual_sizes(tmp_path):
    for index in range(40):
        save(tmp_path / "a" / f"{index}.png", index)
    save(tmp_path / "b" / "1.png", 99)
    save(tmp_path / "a" / "wide.png", 100, size=(8, 30))
    texts = [str(finding) for finding in check(tmp_path)]
    assert texts == [
        f"{tmp_path}: warning: class 'b' has 1 images; the largest class has 41",
        f"{tmp_path / 'a' / 'wide.png'}: warning: 8x30 pixels; most images have 8x8",
    ]


def test_arrays_are_checked(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x_train=pixels, y_train=[0, 1] * 3, x_test=pixels[:2], y_test=[0, 1])
    findings = check(tmp_path / "a.npz")
    assert [finding.kind for finding in findings] == ["repeated"] * 2 and findings[0].file.name == "a.npz: x_test:0"
    (tmp_path / "b.npz").write_bytes(b"hello")
    assert any("not a .npz file of plain arrays" in finding.text for finding in check(tmp_path))


def test_an_empty_class_folder_is_a_finding(tmp_path):
    save(tmp_path / "a" / "1.png", 1)
    (tmp_path / "b").mkdir()
    assert ["a class folder without images" in finding.text for finding in check(tmp_path)] == [True]


def test_nothing_to_check(tmp_path):
    with pytest.raises(DataError, match=r"no: no such file or folder$"):
        check(tmp_path / "no")
    with pytest.raises(DataError, match=r": no images to check$"):
        check(tmp_path)
