"""Lines as they come: a file in its encoding, a pipe line by line, and what cannot be read named."""

import os
import sys
import threading

import pytest

from regard.cli import inputs
from regard.cli.inputs import InputLine


class Standard:
    """A handle in place of standard input."""

    def __init__(self, handle):
        self.handle = handle

    def fileno(self):
        return self.handle


@pytest.fixture
def pipe(monkeypatch):
    """The end of a pipe that is written to; the other is standard input."""
    read, write = os.pipe()
    monkeypatch.setattr(sys, "stdin", Standard(read))
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
        found = inputs.standard_input()
        assert texts(found.lines) == ["좋은 아침입니다", "", "고마워요"] and found.name.endswith("in.txt")
    said = capsys.readouterr().err
    assert ("read as" in said) == (not encoding.startswith("utf-8"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_pipe_with_any_mark(pipe, encoding):
    os.write(pipe, "하나\n둘".encode(encoding))
    os.close(pipe)
    assert texts(inputs.standard_input().lines) == ["하나", "둘"]


def test_each_line_of_an_open_pipe_is_there_at_once(pipe):
    lines = iter(inputs.standard_input().lines)
    for number in (1, 2):
        os.write(pipe, f"line {number}\n".encode())
        assert next(lines) == InputLine(number, f"line {number}") and next(lines) is None
    threading.Timer(0.05, lambda: (os.write(pipe, b"late"), os.close(pipe))).start()
    assert next(lines) == InputLine(3, "late") and next(lines, "end") == "end"


def test_what_cannot_be_read_is_named_and_the_rest_is_there(pipe):
    os.write(pipe, b"one\ntw\xff\nthree\n")
    os.close(pipe)
    one, two, three = [line for line in inputs.standard_input().lines if line is not None]
    assert two.error == "not UTF-8: byte 3 of the line is 0xff; mend the line or leave it out"
    assert (one.error, three) == ("", InputLine(3, "three"))


def test_an_empty_pipe_has_no_lines(pipe):
    os.close(pipe)
    assert list(inputs.standard_input().lines) == []


def test_where_something_can_be_made_of_nothing_a_pipe_is_read_if_it_has_lines(pipe, monkeypatch):
    os.write(pipe, b"one\n\nthree\n")
    os.close(pipe)
    name, lines = inputs.piped_input()
    assert name == "standard input" and texts(lines) == ["one", "", "three"]
    assert inputs.piped_input() is None  # there are no more
    with open(os.devnull, encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert inputs.piped_input() is None
    monkeypatch.setattr(sys, "stdin", None)
    assert inputs.piped_input() is None
