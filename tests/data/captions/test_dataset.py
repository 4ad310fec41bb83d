"""Captioned images: scenes and files of every layout; missing and damaged files are named and counted."""

import unicodedata

import numpy as np
import pytest
import torch
from PIL import Image

from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError, DataError
from regard.data.builtin import scenes
from regard.data.captions import dataset
from regard.data.images.loader import TargetShape

TARGET_SHAPE = TargetShape(8, 8, 3)


def image(path, *, mode="RGB", size=(8, 8), seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {"RGB": 3, "RGBA": 4, "L": 0}[mode]
    shape = (*size, channels) if channels else size
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, shape, dtype=np.uint8), mode).save(path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "data"
    for index in range(6):
        image(root / "images" / f"{index}.png", seed=index)
    lines = [f"{index}.png\tpicture {index}\n{index}.png\timage number {index}\n" for index in range(6)]
    (root / "captions.tsv").write_text("".join(lines))
    return root


def test_scenes_have_the_region_of_every_word():
    collection = dataset.make_scenes(20, side=32, things=(1, 2), language="ko", seed=3)
    part = collection.split("train")
    assert len(part) == 20 and part.images(np.array([3, 1])).shape == (2, 32, 32, 3)
    for texts, regions in zip(part.captions, part.regions, strict=True):
        assert texts == tuple(dataset.caption_text(words) for words in regions)
    used = {word.text for captions in part.regions for words in captions for word in words}
    assert used <= {*scenes.KOREAN_WORDS.values(), *"위에 아래에 왼쪽에 오른쪽에 있는".split()}


@pytest.mark.parametrize("held_out", ["pairs", "triples"])
def test_test_scenes_have_kinds_of_objects_that_training_lacks(held_out):
    collection = dataset.make_scenes(60, side=32, language="en", seed=1, things=(1, 3), held_out=held_out)

    def kinds(split):
        texts = [text for image_captions in collection.split(split).captions for text in image_captions]
        sentences = [text.split() for text in texts]
        return {tuple(words[i : i + 3]) for words in sentences for i, word in enumerate(words) if word in scenes.SIZES}

    test_kinds = {kind for kind in kinds("test") if scenes.split_of(*kind, held_out) == "test"}
    assert test_kinds and not test_kinds & kinds("train")


def test_files_are_matched_and_split_by_seed(folder):
    collection = dataset.read_files(folder, TARGET_SHAPE, seed=1)
    assert {name: len(part) for name, part in collection.splits.items()} == {"train": 4, "valid": 1, "test": 1}
    indices = {image_captions[0].split()[-1] for part in collection.splits.values() for image_captions in part.captions}
    assert indices == set("012345") and collection.remarks == ()
    for part in collection.splits.values():
        for row, image_captions in enumerate(part.captions):
            seed = int(image_captions[0].split()[-1])
            expected = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
            assert (part.images(np.array([row]))[0] == expected).all() and len(image_captions) == 2
    again = dataset.read_files(folder, TARGET_SHAPE, seed=1)  # from the cache
    assert [part.checksum() for part in again.splits.values()] == [
        part.checksum() for part in collection.splits.values()
    ]


def test_a_caption_file_finds_the_images_in_its_folder(folder):
    assert len(dataset.read_files(folder / "captions.tsv", TARGET_SHAPE, seed=1).split("train")) == 4


def test_invalid_input_is_named_counted_and_ignored(folder):
    image(folder / "images" / "large.png", size=(16, 12))
    image(folder / "images" / "clear.png", mode="RGBA")
    image(folder / "images" / "silent.png")
    (folder / "images" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    more = "".join(f"{name}.png\tsomething\n" for name in ("large", "clear", "broken", "gone", "lost"))
    (folder / "captions.tsv").write_text((folder / "captions.tsv").read_text() + more + "0.png\t \n")
    remarks = "\n".join(dataset.read_files(folder, TARGET_SHAPE, seed=1).remarks)
    assert "images/large.png: another size: resized to 8x8" in remarks
    assert "images/clear.png: transparent: placed on a white background" in remarks
    assert "1 images cannot be read and are ignored: images/broken.png: " in remarks
    assert "3 images that have captions do not exist or cannot be read: broken.png, gone.png, lost.png" in remarks
    assert "1 images have no caption and are ignored: images/silent.png" in remarks
    assert "1 captions are empty and are ignored" in remarks


def test_long_lists_are_shortened_and_counted():
    (line,) = dataset.summarize_names("images", [str(i) for i in range(43)])
    assert line.startswith("43 images: 0, 1, 2, ") and line.endswith(", 39 … and 3 more")


def test_two_images_of_one_name_need_their_folder(folder):
    image(folder / "more" / "0.png", seed=9)
    with pytest.raises(
        DataError, match=r"^the caption of '0.png' may belong to images/0.png and more/0.png; include the"
    ):
        dataset.read_files(folder, TARGET_SHAPE, seed=1)
    (folder / "captions.tsv").write_text((folder / "captions.tsv").read_text().replace("\n0.png", "\nmore/0.png"))
    text = (folder / "captions.tsv").read_text()
    (folder / "captions.tsv").write_text(f"images/{text}")
    assert sum(len(part) for part in dataset.read_files(folder, TARGET_SHAPE, seed=1).splits.values()) == 7


@pytest.mark.parametrize(
    ("captions", "message"),
    [
        (
            "x.png\ta dog\n",
            r"no caption matches an image, 1 image not found: 'x.png' …; use the names of the image files$",
        ),
        ("0.png\t \n", "all captions are empty; add captions for the images$"),
    ],
)
def test_captions_without_any_image_are_an_error(folder, captions, message):
    (folder / "captions.tsv").write_text(captions)
    with pytest.raises(DataError, match=message):
        dataset.read_files(folder, TARGET_SHAPE, seed=1)


def test_a_missing_folder_or_a_folder_without_images_is_an_error(folder, tmp_path):
    with pytest.raises(DataError, match="no such file or folder; provide images and their captions in one folder"):
        dataset.read_files(tmp_path / "nowhere", TARGET_SHAPE, seed=1)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "captions.tsv").write_text("a.png\tone\n")
    with pytest.raises(DataError, match=r"no images; provide PNG, JPEG … or archives of them"):
        dataset.read_files(bare, TARGET_SHAPE, seed=1)


def test_unknown_names_and_splits():
    with pytest.raises(
        ConfigError, match=r"^no data 'scene'; files are given as data\.path=…; did you mean 'scenes'\?$"
    ):
        dataset.check_source("scene")
    with pytest.raises(DataError, match="the data has no split 'tests'"):
        dataset.make_scenes(4, side=24, things=(1, 1), language="en", seed=1).split("tests")


def test_missing_captions_are_empty_rows():
    padded = dataset.pad_captions([[[5, 6]], [[7], [8, 9, 5]]], 2, SpecialTokens())
    assert padded.tokens.tolist() == [[2, 5, 6, 3, 0], [0] * 5, [2, 7, 3, 0, 0], [2, 8, 9, 5, 3]]
    assert padded.lengths.tolist() == [4, 0, 3, 5]
    torch.manual_seed(0)
    drawn = {
        tuple(dataset.pad_captions([[[5], [6], [7]]], 2, SpecialTokens()).tokens[:, 1].tolist()) for _ in range(30)
    }
    assert len(drawn) == 6  # any two of three, in any order


def test_flickr8k_is_read_completely(shared_data):
    captions = dataset.files.read(shared_data / "flickr8k")
    counts = {split: len({c.image for c in captions if c.split == split}) for split in ("train", "valid", "test")}
    assert counts == {"train": 6000, "valid": 1000, "test": 500} and len(captions) == 37_500


def test_image_names_of_every_system_are_found(folder):
    image(folder / "a" / unicodedata.normalize("NFD", "고양이.png"), seed=7)
    image(folder / "ba" / "고양이.png", seed=8)
    lines = "a\\고양이.png\tof a\nba/고양이.PNG\tof ba\n"
    (folder / "captions.tsv").write_text((folder / "captions.tsv").read_text() + lines)
    collection = dataset.read_files(folder, TARGET_SHAPE, seed=1)
    texts = {text for part in collection.splits.values() for image_captions in part.captions for text in image_captions}
    assert {"of a", "of ba"} <= texts and not collection.remarks


def test_image_names_may_omit_the_suffix(folder):
    text = (folder / "captions.tsv").read_text().replace(".png", "")
    (folder / "captions.tsv").write_text(f"image\tcaption\n{text}")
    collection = dataset.read_files(folder, TARGET_SHAPE, seed=1)
    assert sum(len(part) for part in collection.splits.values()) == 6 and not collection.remarks
    image(folder / "more" / "0.jpg", seed=9)
    with pytest.raises(DataError, match=r"^the caption of '0' may belong to images/0.png and more/0.jpg; include the"):
        dataset.read_files(folder, TARGET_SHAPE, seed=1)
    (folder / "captions.tsv").write_text(f"image\tcaption\n{text}more/0\tanother\n".replace("\n0\t", "\nimages/0\t"))
    assert sum(len(part) for part in dataset.read_files(folder, TARGET_SHAPE, seed=1).splits.values()) == 7
