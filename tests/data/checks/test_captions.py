"""The check of captioned images finds unmatched, unreadable and unusual images and captions."""

import json

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import DataError
from regard.data.checks import detect_layout, report
from regard.data.checks.captions import check


def image(path, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path):
    for index in range(5):
        image(tmp_path / "images" / f"{index}.png", index)
    lines = [f"{index}.png\tpicture {index}\n{index}.png\timage number {index}\n" for index in range(5)]
    (tmp_path / "captions.tsv").write_text("".join(lines))
    return tmp_path


def finding_lines(path):
    return [str(finding).removeprefix(f"{path}") for finding in check(path)]


def test_valid_data_has_no_findings_and_a_train_command(folder):
    assert detect_layout.detect_layout(folder) == detect_layout.detect_layout(folder / "captions.tsv") == "captions"
    assert report.examine(folder).findings == report.examine(folder / "captions.tsv").findings == []
    assert report.examine(folder).command.startswith("regard train captioning data.path=")
    assert report.examine(folder).lines == [
        f"{folder}: images with captions",
        "10 captions of 5 images",
        "first caption: 0.png -> picture 0",
    ]


def test_unmatched_images_and_captions_are_reported(folder):
    image(folder / "images" / "silent.png", 9)
    (folder / "images" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    more = "gone.png\tone\ngone.png\ttwo\n3.jpg\tthree\nbroken.png\tfour\n0.png\t \n1.png\t" + 200 * "word "
    (folder / "captions.tsv").write_text((folder / "captions.tsv").read_text() + more)
    assert finding_lines(folder) == [
        ": warning: '0.png' has 1 empty caption, ignored",
        ": error: '3.jpg' has 1 caption, but the image does not exist; there is 'images/3.png'",
        ": error: 'gone.png' has 2 captions, but the image does not exist",
        ": warning: a caption of '1.png' has 200 words; the median is 2",
        "/images/broken.png: error: not an image that Pillow can read; give PNG, JPEG, PGM …",
        "/images/silent.png: warning: no caption; the image is ignored",
    ]


def test_images_of_one_name_and_splits_that_overlap(folder):
    image(folder / "more" / "0.png", 7)
    image(folder / "images" / "twin.png", 1)
    (folder / "captions_test.tsv").write_text("twin.png\tthe same picture\n2.png\ttested\n")
    (folder / "captions.tsv").rename(folder / "captions_train.tsv")
    lines = finding_lines(folder)
    assert (
        ": error: the caption of '0.png' may belong to images/0.png and more/0.png; include the folder of" in lines[1]
    )
    assert lines[0] == ": error: '2.png' has captions in test and in train"
    assert any(line.startswith("/images/twin.png: warning: the same image is in ") for line in lines)


def test_unreadable_or_missing_captions(folder, tmp_path):
    (folder / "captions.tsv").write_text("0.png\tone\n1.png\n")
    assert "line 2: one column '1.png'; provide the image and its caption" in finding_lines(folder)[0]
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        check(tmp_path / "nowhere")


def test_json_with_captions_is_detected(folder):
    table = {"images": [{"id": 1, "file_name": "0.png"}], "annotations": [{"image_id": 1, "caption": "one"}]}
    path = folder / "captions.tsv"
    path.unlink()
    path = folder / "coco.json"
    path.write_text(json.dumps(table))
    assert detect_layout.detect_layout(folder) == "captions"
    path.write_text(json.dumps(table | {"annotations": [{"image_id": 1, "bbox": [0, 0, 1, 1]}]}))
    assert detect_layout.detect_layout(folder) == "images"  # boxes, not captions


def test_too_few_images_to_hold_some_out_are_an_error_as_in_training(folder):
    (folder / "captions.tsv").write_text("0.png\tone\n1.png\ttwo\n")
    for name in "234":
        (folder / "images" / f"{name}.png").unlink()
    assert finding_lines(folder) == [": error: 2 images are too few to hold some out for test; give more"]
    (folder / "captions.tsv").rename(folder / "captions_test.tsv")
    assert finding_lines(folder) == [": error: there are no training images; the splits are: test"]


def test_unreadable_captions_are_the_only_finding(folder):
    (folder / "captions.tsv").write_text("0.png\n")
    assert finding_lines(folder) == [
        f": error: {folder}/captions.tsv, line 1: one column '0.png'; provide the image and its caption"
    ]


def test_captions_that_are_all_empty_are_an_error_as_in_training(folder):
    (folder / "captions.tsv").write_text("".join(f"{index}.png\t \n" for index in range(5)))
    assert ": error: all captions are empty; add captions for the images" in finding_lines(folder)


def test_a_header_with_image_and_caption_is_sufficient(folder):
    (folder / "captions.tsv").write_text(
        "".join(f"{n}\tpicture {n}\n" for n in ("image", *range(5))).replace("picture image", "caption")
    )
    assert detect_layout.detect_layout(folder) == "captions" and finding_lines(folder) == []
