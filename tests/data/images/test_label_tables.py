"""Photographs in one folder with a table of their labels."""

import numpy as np
import pytest

from regard.core.errors import DataError
from regard.data.checks import detect_layout, report
from regard.data.images import dataset, label_tables
from regard.data.images.dataset import ImageSource
from regard.data.images.image_files import encode_png
from regard.data.images.loader import TargetShape


@pytest.fixture
def photos(tmp_path):
    """Twelve photographs of different sizes, and labels.csv with Korean column names."""
    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for i in range(12):
        pixels = rng.integers(0, 255, (9, 8 if i % 3 else 10, 3)).astype(np.uint8)
        (tmp_path / "photos" / f"{i}.png").write_bytes(encode_png(pixels))
    rows = [f"{i}.png,{'고양이' if i % 2 else '개'}" for i in range(12)]
    (tmp_path / "labels.csv").write_text("\n".join(["파일,종류", *rows]) + "\n", encoding="utf-8")
    return tmp_path


def load(path):
    return dataset.load_collection(ImageSource(path, target_shape=TargetShape(8, 8)))


def test_labels_are_read_from_a_table(photos, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
    for path in (photos, photos / "labels.csv"):
        collection = load(path)
        assert collection.classes == ("개", "고양이")
        assert sum(map(len, collection.splits.values())) == 12
    (photos / "labels.csv").write_text("파일,종류\n0,개\n1,고양이\n2,개\n3,고양이\n4,새\n77,새\n", encoding="utf-8")
    collection = load(photos)
    assert collection.classes == ("개", "고양이", "새")
    assert any("not in labels.csv; skipped" in remark for remark in collection.remarks)
    assert any("1 of 6 names have no readable image: '77'" in remark for remark in collection.remarks)


def test_names_may_differ_in_case_and_those_without_an_image_are_named(photos):
    rows = [f"{i}.PNG,{'개' if i % 2 else '고양이'}" for i in range(12)] + ["12.png,개", "../13.png,개"]
    (photos / "labels.csv").write_text("\n".join(["파일,종류", *rows]) + "\n", encoding="utf-8")
    result = report.examine(photos)
    assert result.lines[1] == "12 images, 2 classes: 개, 고양이"
    assert [finding.text for finding in result.findings] == ["2 of 14 names have no readable image: '12.png' …"]
    assert label_tables.find_table(photos).find("0.png").label == "고양이"


def test_the_check_proposes_a_command_with_the_size(photos):
    result = report.examine(photos)
    assert detect_layout.detect_layout(photos) == "images" and result.findings == []
    assert result.command == f"regard train image_classification data.path={photos} data.height=32 data.width=32"
    assert result.lines[1:3] == ["12 images, 2 classes: 개, 고양이", f"classes from {photos / 'labels.csv'}"]


def test_captions_are_not_labels(photos):
    rows = [f"{i}.png,a picture of animal number {i} in the snow" for i in range(12)]
    (photos / "labels.csv").write_text("\n".join(["파일,설명", *rows]) + "\n", encoding="utf-8")
    assert label_tables.find_table(photos) is None
    assert detect_layout.detect_layout(photos) == "captions"


def test_class_folders_take_precedence_and_images_without_classes_are_generated(photos):
    (photos / "labels.csv").unlink()
    assert report.examine(photos).command.startswith("regard train image_generation data.path=")
    (photos / "more").mkdir()
    (photos / "photos" / "0.png").rename(photos / "more" / "0.png")
    (photos / "labels.csv").write_text("file,label\n1.png,x\n2.png,y\n", encoding="utf-8")
    assert report.examine(photos).lines[1] == "12 images, 2 classes: more, photos"


def test_wrong_tables_are_errors(photos):
    table = photos / "labels.csv"
    table.write_text("file,label\n1.png,x\n1.png,y\n2.png,x\n3.png,y\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"labels\.csv:3: '1\.png' is labeled 'y' here and 'x' above; keep one"):
        label_tables.read(table)
    table.write_text("file,label\n1.png,x\n2.png,\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"labels\.csv:3: '2\.png' has no label; add it, or delete the line"):
        label_tables.read(table)
    table.write_text("file,label\na.png,x\nb.png,y\nc.png,x\nd.png,y\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"labels\.csv: none of its images exists \('a\.png' …\)"):
        load(photos)
    (photos / "more.csv").write_text("file,label\na.png,x\nb.png,y\nc.png,x\nd.png,y\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"several tables of labels \(labels\.csv, more\.csv\); give the path of one"):
        label_tables.find_table(photos)
