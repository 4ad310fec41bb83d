"""Input lines: a file in its encoding, a pipe line by line, and errors for unreadable lines."""

import os
import sys
import threading

import pytest

from regard.cli import inputs
from regard.cli.inputs import InputLine
from regard.core.errors import ConfigError, DataError
from regard.tasks.embeddings import Embeddings
from regard.tasks.image_classification import ImageClassification
from regard.tasks.language import Language
from regard.tasks.masked_language import MaskedLanguage
from regard.tasks.music import Music
from regard.tasks.recommendation import Recommendation
from regard.tasks.tagging import Tagging
from regard.tasks.translation import Translation


class StandardInput:
    """A file handle in place of standard input."""

    def __init__(self, handle):
        self.handle = handle

    def fileno(self):
        return self.handle


@pytest.fixture
def pipe(monkeypatch):
    """Write end of a pipe whose read end is standard input."""
    read, write = os.pipe()
    monkeypatch.setattr(sys, "stdin", StandardInput(read))
    yield write
    os.close(read)


def texts(lines):
    return [line.text for line in lines if line is not None]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp949"])
def test_a_file_is_read_in_its_encoding(tmp_path, monkeypatch, encoding, capsys):
    path = tmp_path / "in.txt"
    path.write_bytes("좋은 아침입니다\r\n\r\n고마워요".encode(encoding))
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        stream = inputs.standard_input()
        assert texts(stream.lines) == ["좋은 아침입니다", "", "고마워요"] and stream.name.endswith("in.txt")
    printed = capsys.readouterr().err
    assert ("read as" in printed) == (not encoding.startswith("utf-8"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_pipe_with_or_without_a_bom(pipe, encoding):
    os.write(pipe, "하나\n둘".encode(encoding))
    os.close(pipe)
    assert texts(inputs.standard_input().lines) == ["하나", "둘"]


def test_each_line_of_an_open_pipe_is_available_immediately(pipe):
    lines = iter(inputs.standard_input().lines)
    for index in (1, 2):
        os.write(pipe, f"line {index}\n".encode())
        assert next(lines) == InputLine(index, f"line {index}") and next(lines) is None
    threading.Timer(0.05, lambda: (os.write(pipe, b"late"), os.close(pipe))).start()
    assert next(lines) == InputLine(3, "late") and next(lines, "end") == "end"


def test_an_unreadable_line_has_an_error_and_the_others_are_read(pipe):
    os.write(pipe, b"one\ntw\xff\nthree\n")
    os.close(pipe)
    first, second, third = [line for line in inputs.standard_input().lines if line is not None]
    assert second.error == "not UTF-8: byte 3 of the line is 0xff; fix or remove the line"
    assert (first.error, third) == ("", InputLine(3, "three"))


def test_an_empty_pipe_has_no_lines(pipe):
    os.close(pipe)
    assert list(inputs.standard_input().lines) == []


def test_a_pipe_is_optional_input_for_tasks_that_accept_none(pipe, monkeypatch):
    os.write(pipe, b"one\n\nthree\n")
    os.close(pipe)
    name, lines = inputs.piped_input()
    assert name == "standard input" and texts(lines) == ["one", "", "three"]
    assert inputs.piped_input() is None  # there are no more
    with open(os.devnull, encoding="utf-8") as empty:
        monkeypatch.setattr(sys, "stdin", empty)
        assert inputs.piped_input() is None
    monkeypatch.setattr(sys, "stdin", None)
    assert inputs.piped_input() is None


def test_the_name_of_a_file_is_not_an_input_of_a_run_that_reads_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in put.txt").write_text("a dog\n", encoding="utf-8")
    inputs.require_texts(["a dog", "other.txt", "x" * 5000, "\0.txt"])
    message = r"^in put\.txt: is a file, but this run reads texts; predict for its lines with --file 'in put\.txt'"
    with pytest.raises(ConfigError, match=message):
        inputs.require_texts(["a dog", "in put.txt"])


@pytest.mark.parametrize("task", [Translation, Language, Tagging, MaskedLanguage, Embeddings, Recommendation])
def test_runs_that_read_texts_open_no_files(task):
    """Also at the first call of a command, when no engine is cached."""
    assert not object.__new__(task).opens_files
    assert object.__new__(ImageClassification).opens_files and object.__new__(Music).opens_files


def test_a_folder_is_no_input(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=rf"^--file {tmp_path}: is a folder; give the name of a text file$"):
        inputs.file_input(tmp_path)
    handle = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setattr("sys.stdin", StandardInput(handle))
    with pytest.raises(DataError, match="is a folder; give the name of a text file"):
        inputs.standard_input()
    os.close(handle)


def test_the_lines_of_a_file(tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes("개\n고양이\n".encode("cp949"))
    stream = inputs.file_input(path)
    assert stream.name == str(path) and [line.text for line in stream.lines] == ["개", "고양이"]
    with pytest.raises(DataError, match=r"^--file .*missing\.txt: cannot be read \(No such file or directory\)$"):
        inputs.file_input(tmp_path / "missing.txt")
