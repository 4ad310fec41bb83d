"""Files and folders are written atomically and never through links; pipes and folders are not read."""

from __future__ import annotations

import hashlib
import os
import threading

import pytest

from regard.core import files
from regard.core.errors import FileError


def test_text_is_written_and_no_temporary_file_stays(tmp_path):
    path = tmp_path / "new" / "x.json"
    files.write_text(path, "안녕\n")
    files.write_text(path, "again\n")
    assert path.read_text(encoding="utf-8") == "again\n" and list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_no_temporary_file(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(FileError, match=r"x: could not be written \("):
        files.write_text(tmp_path / "x", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "x").write_text("a file", encoding="utf-8")
    with pytest.raises(FileError, match=r"y: could not be written \("):
        files.write_text(tmp_path / "x" / "y", "text")


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    """Each writer has its own temporary file; the last one to finish wins."""
    path = tmp_path / "x"
    with files.atomic_write(path) as first, files.atomic_write(path) as second:
        first.write_bytes(b"first, and longer")
        second.write_bytes(b"second")
    assert path.read_bytes() == b"first, and longer"  # the outer context is moved last
    threads = [threading.Thread(target=files.write_bytes, args=(path, bytes([i]) * 9999)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(path.read_bytes())) == 1 and list(tmp_path.iterdir()) == [path]


def test_a_name_as_long_as_the_system_allows_is_written(tmp_path):
    path = tmp_path / ("n" * 250)
    files.write_text(path, "text")
    assert path.read_text(encoding="utf-8") == "text"


def test_a_link_is_replaced_and_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    link = tmp_path / "link"
    link.symlink_to(victim)
    files.write_text(link, "text")
    assert victim.read_text(encoding="utf-8") == "mine" and not link.is_symlink()


def test_a_log_is_never_appended_to_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    (tmp_path / "soft").symlink_to(victim)
    with pytest.raises(FileError, match="soft: a link; nothing in a run is written through a link: put a plain file"):
        files.append_bytes(tmp_path / "soft", b"more")
    os.link(victim, tmp_path / "hard")
    files.append_bytes(tmp_path / "hard", b", more")
    assert (tmp_path / "hard").read_text(encoding="utf-8") == "mine, more"
    assert victim.read_text(encoding="utf-8") == "mine"


def test_pipes_and_folders_are_refused_without_blocking(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a plain file"):
        files.file_sha256(tmp_path / "pipe")
    with pytest.raises(FileError, match="pipe: not a plain file; put one in its place"):
        files.append_bytes(tmp_path / "pipe", b"text")
    with pytest.raises(OSError, match="not a plain file"):
        files.file_sha256(tmp_path)
    (tmp_path / "x").write_bytes(b"abc")
    assert files.file_sha256(tmp_path / "x") == hashlib.sha256(b"abc").hexdigest()


def test_a_folder_is_moved_into_place(tmp_path):
    path = tmp_path / "new" / "folder"
    with files.atomic_folder(path) as draft:
        (draft / "x").write_text("text", encoding="utf-8")
        assert draft.parent == path.parent and not path.exists()
    assert (path / "x").read_text(encoding="utf-8") == "text" and list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("replace", "content"), [(False, "old"), (True, "new")])
def test_an_existing_folder_stays_unless_it_is_replaced(tmp_path, replace, content):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "x").write_text("old", encoding="utf-8")
    with files.atomic_folder(path, replace=replace) as draft:
        (draft / "x").write_text("new", encoding="utf-8")
    assert (path / "x").read_text(encoding="utf-8") == content and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_another_process_creates_meanwhile_stays(tmp_path):
    path = tmp_path / "folder"
    with files.atomic_folder(path) as draft:
        (draft / "x").touch()
        path.mkdir()
        (path / "y").touch()
    assert [file.name for file in path.iterdir()] == ["y"] and list(tmp_path.iterdir()) == [path]


def test_a_failed_folder_leaves_nothing(tmp_path):
    def fill(draft):
        (draft / "x").touch()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), files.atomic_folder(tmp_path / "folder") as draft:
        fill(draft)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(FileError, match=r"folder: could not be written \(Not a directory\)$"),
        files.atomic_folder(tmp_path / "file" / "folder"),
    ):
        pass


def test_the_drafts_of_killed_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MIN_ABANDONED_S", 0.0)
    abandoned = [tmp_path / ".target.00000000.part", tmp_path / ".target.11111111.part"]
    abandoned[0].write_bytes(b"half")
    (abandoned[1] / "inner").mkdir(parents=True)
    other = tmp_path / ".other.00000000.part"
    other.write_bytes(b"half")
    with files.atomic_write(tmp_path / "target") as draft:
        files.write_bytes(tmp_path / "target", b"second")  # a draft in use is not removed
        assert draft.exists()
        draft.write_bytes(b"first")
    assert (tmp_path / "target").read_bytes() == b"first"
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, "target"]


def test_a_new_draft_is_not_abandoned(tmp_path):
    draft = tmp_path / ".target.00000000.part"
    draft.write_bytes(b"half")
    files.write_bytes(tmp_path / "target", b"whole")
    assert draft.exists()


def test_the_files_of_a_folder_are_flushed_before_it_is_moved(tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(files, "fsync", lambda path: events.append(path.name))
    replace = os.replace
    monkeypatch.setattr(files.os, "replace", lambda *paths: (events.append("move"), replace(*paths)))
    with files.atomic_folder(tmp_path / "target") as draft:
        (draft / "inner").mkdir()
        (draft / "inner" / "a").write_bytes(b"a")
        (draft / "header").write_bytes(b"h")
    moved = events.index("move")
    assert {"a", "inner", "header", draft.name} == set(events[:moved]) and events[moved + 1 :] == [tmp_path.name]
