"""Files: whole or not there, never through a link, and no waiting for what is no file."""

from __future__ import annotations

import hashlib
import os
import threading

import pytest

from regard.core import files
from regard.core.errors import FileError


def test_text_is_written_whole_and_nothing_else_stays(tmp_path):
    path = tmp_path / "new" / "x.json"
    files.write_text(path, "안녕\n")
    files.write_text(path, "again\n")
    assert path.read_text(encoding="utf-8") == "again\n" and list(path.parent.iterdir()) == [path]


def test_what_cannot_be_written_leaves_no_trace(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(FileError, match=r"x: could not be written \("):
        files.write_text(tmp_path / "x", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "x").write_text("a file", encoding="utf-8")
    with pytest.raises(FileError, match=r"y: could not be written \("):
        files.write_text(tmp_path / "x" / "y", "text")


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    """Each writes beside it under a name of its own, so that whoever is last wins whole."""
    path = tmp_path / "x"
    with files.atomic_write(path) as first, files.atomic_write(path) as second:
        first.write_bytes(b"first, and longer")
        second.write_bytes(b"second")
    assert path.read_bytes() == b"first, and longer"  # the outer one is moved last
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


def test_what_is_no_plain_file_is_neither_read_nor_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a plain file"):
        files.file_sha256(tmp_path / "pipe")
    with pytest.raises(FileError, match="pipe: not a plain file; put one in its place"):
        files.append_bytes(tmp_path / "pipe", b"text")
    with pytest.raises(OSError, match="not a plain file"):
        files.file_sha256(tmp_path)
    (tmp_path / "x").write_bytes(b"abc")
    assert files.file_sha256(tmp_path / "x") == hashlib.sha256(b"abc").hexdigest()
