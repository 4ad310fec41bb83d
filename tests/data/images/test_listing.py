"""Folders and archives are listed with class and split; paths outside an archive are refused."""

import io
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import DataError
from regard.data.images import listing
from regard.data.images.listing import list_images


def png_bytes(value=0):
    buffer = io.BytesIO()
    Image.fromarray(np.full((2, 2), value, np.uint8)).save(buffer, format="PNG")
    return buffer.getvalue()


def write(path, data=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png_bytes() if data is None else data)


def write_archive(path, names):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, png_bytes())
        return path
    with tarfile.open(path, f"w:{path.suffix[1:]}" if path.suffix != ".tar" else "w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(png_bytes())
            archive.addfile(member, io.BytesIO(png_bytes()))
    return path


def splits_and_labels(path):
    return [(entry.split, entry.label) for entry in list_images(path)]


def test_a_folder_of_splits_and_classes(tmp_path):
    for name in ("train/cat/1.png", "train/dog/1.png", "val/cat/2.PNG", "README.md"):
        write(tmp_path / name)
    assert splits_and_labels(tmp_path) == [("train", "cat"), ("train", "dog"), ("valid", "cat")]


def test_a_folder_of_classes_and_one_without(tmp_path):
    for name in ("a/s1/1.png", "a/s2/1.png", "b/1.png", "b/train/2.png"):
        write(tmp_path / name)
    assert splits_and_labels(tmp_path / "a") == [(None, "s1"), (None, "s2")]
    assert splits_and_labels(tmp_path / "b") == [(None, None), ("train", None)]
    assert splits_and_labels(tmp_path / "b" / "1.png") == [(None, None)]


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.tar.xz"])
def test_archives(tmp_path, name):
    path = write_archive(tmp_path / name, ["train/cat/1.png", "notes.txt", "test/dog/1.png", "cat/._1.png"])
    assert splits_and_labels(path) == [("train", "cat"), ("test", "dog")]
    first = next(iter(list_images(path)))
    assert first.source == png_bytes() and first.where == f"{path}/train/cat/1.png"


def test_an_archive_that_is_named_after_its_split(tmp_path):
    write_archive(tmp_path / "train_0.tar.xz", ["cat/1.png"])
    write_archive(tmp_path / "test_first_half.zip", ["cat/1.png"])
    assert splits_and_labels(tmp_path) == [("test", "cat"), ("train", "cat")]


@pytest.mark.parametrize("name", ["../x.png", "/etc/x.png", "a/../../x.png", "C:\\x.png", "..\\x.png", "../x.txt"])
@pytest.mark.parametrize("kind", ["x.zip", "x.tar"])
def test_paths_outside_the_archive_are_refused(tmp_path, kind, name):
    path = write_archive(tmp_path / kind, ["cat/1.png", name])
    with pytest.raises(DataError, match=r"points outside the archive; the archive is not read$"):
        list(list_images(path))


def test_a_link_in_an_archive_is_refused(tmp_path):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("cat/1.png")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(DataError, match=r"'cat/1.png' is a link, which is not followed; pack the file itself$"):
        list(list_images(path))


def test_a_huge_member_is_refused(tmp_path, monkeypatch):
    path = write_archive(tmp_path / "x.zip", ["cat/1.png"])
    monkeypatch.setattr(listing, "MAX_IMAGE_BYTES", 10)
    with pytest.raises(DataError, match=r"'cat/1.png' has \d+ bytes; the limit is 10; the archive is not read$"):
        list(list_images(path))


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.xz", "x.tar.gz"])
def test_a_damaged_archive(tmp_path, name):
    path = write_archive(tmp_path / name, [f"cat/{index}.png" for index in range(50)])
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match=r": damaged, or not an archive \(.*\); download it again$"):
        list(list_images(path))
    with pytest.raises(DataError, match=r"no such file$"):
        list(list_images(tmp_path / f"no{name}"))


def test_an_empty_class_folder(tmp_path):
    write(tmp_path / "cat" / "1.png")
    (tmp_path / "dog").mkdir()
    with pytest.raises(DataError, match=r"dog: a class folder without images; add images, or delete the folder$"):
        list(list_images(tmp_path))


def test_hidden_files_are_ignored(tmp_path):
    write(tmp_path / "cat" / "1.png")
    write(tmp_path / "cat" / "._1.png")
    write(tmp_path / ".thumbnails" / "1.png")
    (tmp_path / ".git" / "refs").mkdir(parents=True)
    assert [entry.where for entry in listing.list_images(tmp_path)] == [str(tmp_path / "cat" / "1.png")]
