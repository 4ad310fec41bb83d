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
