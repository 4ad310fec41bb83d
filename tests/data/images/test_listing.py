"""Folders and archives are listed with class and split; nothing leads out of an archive."""

import io
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import DataError
from regard.data.images import listing
from regard.data.images.listing import list_images


def picture(value=0):
    target = io.BytesIO()
    Image.fromarray(np.full((2, 2), value, np.uint8)).save(target, format="PNG")
    return target.getvalue()


def write(path, data=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture() if data is None else data)


def packed(path, names):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, picture())
        return path
    with tarfile.open(path, f"w:{path.suffix[1:]}" if path.suffix != ".tar" else "w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(picture())
            archive.addfile(member, io.BytesIO(picture()))
    return path


def told(path):
    return [(entry.split, entry.label) for entry in list_images(path)]


def test_a_folder_of_splits_and_classes(tmp_path):
    for name in ("train/cat/1.png", "train/dog/1.png", "val/cat/2.PNG", "README.md"):
        write(tmp_path / name)
    assert told(tmp_path) == [("train", "cat"), ("train", "dog"), ("valid", "cat")]


def test_a_folder_of_classes_and_one_without(tmp_path):
    for name in ("a/s1/1.png", "a/s2/1.png", "b/1.png", "b/train/2.png"):
        write(tmp_path / name)
    assert told(tmp_path / "a") == [(None, "s1"), (None, "s2")]
    assert told(tmp_path / "b") == [(None, None), ("train", None)]
    assert told(tmp_path / "b" / "1.png") == [(None, None)]


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.tar.xz"])
def test_archives(tmp_path, name):
    path = packed(tmp_path / name, ["train/cat/1.png", "notes.txt", "test/dog/1.png", "cat/._1.png"])
    assert told(path) == [("train", "cat"), ("test", "dog")]
    first = next(iter(list_images(path)))
    assert first.source == picture() and first.where == f"{path}/train/cat/1.png"


def test_an_archive_that_is_named_after_its_split(tmp_path):
    packed(tmp_path / "train_0.tar.xz", ["cat/1.png"])
    packed(tmp_path / "test_first_half.zip", ["cat/1.png"])
    assert told(tmp_path) == [("test", "cat"), ("train", "cat")]


@pytest.mark.parametrize("name", ["../x.png", "/etc/x.png", "a/../../x.png", "C:\\x.png", "..\\x.png", "../x.txt"])
@pytest.mark.parametrize("kind", ["x.zip", "x.tar"])
def test_paths_that_lead_out_are_refused(tmp_path, kind, name):
    path = packed(tmp_path / kind, ["cat/1.png", name])
    with pytest.raises(DataError, match=r"leads out of the archive; nothing of it is read$"):
        list(list_images(path))


def test_a_link_in_an_archive_is_refused(tmp_path):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("cat/1.png")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(DataError, match=r"'cat/1.png' is a link, which may lead anywhere; pack the file itself$"):
        list(list_images(path))


def test_a_huge_member_is_refused(tmp_path, monkeypatch):
    path = packed(tmp_path / "x.zip", ["cat/1.png"])
    monkeypatch.setattr(listing, "LARGEST", 10)
    with pytest.raises(DataError, match=r"'cat/1.png' has \d+ bytes, more than any image here; nothing of it is read$"):
        list(list_images(path))


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.xz", "x.tar.gz"])
def test_a_damaged_archive(tmp_path, name):
    path = packed(tmp_path / name, [f"cat/{number}.png" for number in range(50)])
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match=r": damaged, or no archive \(.*\); get it again$"):
        list(list_images(path))
    with pytest.raises(DataError, match=r"no such file$"):
        list(list_images(tmp_path / f"no{name}"))


def test_an_empty_class_folder(tmp_path):
    write(tmp_path / "cat" / "1.png")
    (tmp_path / "dog").mkdir()
    with pytest.raises(DataError, match=r"dog: a class folder without an image; put some there, or delete the folder$"):
        list(list_images(tmp_path))


def test_what_programs_put_beside_images_is_no_image_and_no_class(tmp_path):
    write(tmp_path / "cat" / "1.png")
    write(tmp_path / "cat" / "._1.png")
    write(tmp_path / ".thumbnails" / "1.png")
    (tmp_path / ".git" / "refs").mkdir(parents=True)
    assert [entry.where for entry in listing.list_images(tmp_path)] == [str(tmp_path / "cat" / "1.png")]
