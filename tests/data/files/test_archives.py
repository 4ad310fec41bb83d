import gzip
import io
import tarfile
import zipfile

import pytest

from regard.core.errors import DataError
from regard.data.files import archives, text_files

FILES = {"set/neg/1.txt": "bad", "set/pos/2.txt": "좋다\n", "set/pos/.hidden.txt": "no", "set/README": "no"}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "folder"


def create_archive(folder, suffix):
    path = folder.parent / f"all{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as file:
            for name in sorted(FILES):
                file.write(folder / name, name)
    else:
        with tarfile.open(path, "w:" + suffix.removeprefix(".tar").removeprefix(".")) as file:
            file.add(folder / "set", "set")
    return path


@pytest.mark.parametrize("suffix", ["", ".zip", ".tar", ".tar.gz", ".tar.xz"])
def test_a_folder_and_its_archives_have_the_same_files(folder, suffix):
    path = create_archive(folder, suffix) if suffix else folder
    assert archives.is_archive(path) == bool(suffix)
    assert {file.parts: file.text for file in archives.read_text_files(path)} == {
        ("set", "neg", "1.txt"): "bad",
        ("set", "pos", "2.txt"): "좋다\n",
    }
    assert sorted(archives.list_text_files(path)) == ["set/neg/1.txt", "set/pos/2.txt"]


def test_compressed_and_empty_files_of_a_folder_are_read(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.txt.gz").write_bytes(gzip.compress(b"text"))
    (tmp_path / "a" / "2.txt").write_text("")
    assert [file.text for file in archives.read_text_files(tmp_path)] == ["text", ""]


def test_an_unknown_encoding_is_an_error(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.txt").write_bytes(b"caf\xe9")
    with pytest.raises(
        DataError,
        match=r"a/1\.txt: not UTF-8 \(byte 0xe9 in line 1\), and the encoding cannot be detected; convert it",
    ):
        list(archives.read_text_files(tmp_path))


@pytest.mark.parametrize("name", ["a.zip", "a.tar.xz"])
def test_a_damaged_archive_is_an_error(tmp_path, name):
    (tmp_path / name).write_bytes(b"not an archive at all")
    with pytest.raises(DataError, match=f"{name}: cannot be read"):
        archives.list_text_files(tmp_path / name)
    with pytest.raises(DataError, match=f"{name}: cannot be read"):
        list(archives.read_text_files(tmp_path / name))


def test_a_member_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_TEXT_BYTES", 5000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pos/a.txt", "a" * 10_000)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("pos/a.txt")
        member.size = 10_000
        archive.addfile(member, io.BytesIO(b"a" * 10_000))
    for name in ("a.zip", "a.tar.gz"):
        with pytest.raises(DataError, match=r"the text has more than 5,000 bytes after unpacking; split it"):
            list(archives.read_text_files(tmp_path / name))
