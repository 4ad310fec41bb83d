"""Standard output: a full disk, a closed pipe, characters that the terminal cannot show; exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import output
from regard.cli.inputs import InputLine
from regard.cli.main import EXIT_CODES
from regard.cli.standard_output import ClosedPipe, OutputError

PRINT_VERSION = """
import sys
import regard.cli.main
sys.argv = ["regard", "--version"]
regard.cli.main.__version__ = "x" * {count}
regard.cli.main.main()
"""
PRINT = "from regard.cli.standard_output import guarded_output\nwith guarded_output():\n    print({text!r})"


def run_python(code: str, *, stdout=subprocess.PIPE, encoding: str = "utf-8") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run(
        [sys.executable, "-c", code], stdout=stdout, stderr=subprocess.PIPE, env=environment, check=False
    )


@pytest.mark.parametrize(("encoding", "shown"), [("cp949", "? 한 ?"), ("ascii", "? ? ?"), ("utf-8", "– 한 →́")])
def test_characters_that_the_encoding_lacks_are_replaced(encoding, shown):
    text = "– 한 →́" if encoding == "utf-8" else "– 한 \N{SNOWMAN}"
    process = run_python(PRINT.format(text=text), encoding=encoding)
    assert (process.returncode, process.stderr) == (0, b"")
    assert process.stdout.decode(encoding).strip() == shown


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("count", [1, 100_000])  # written at exit, or while printing
def test_a_full_disk_is_reported_in_one_line(count):
    code = PRINT_VERSION.format(count=count)
    with Path("/dev/full").open("wb") as full:
        process = run_python(code, stdout=full)
    assert process.returncode == 1
    assert process.stderr.decode() == (
        "regard: standard output: could not be written (No space left on device); free space and repeat\n"
    )


@pytest.mark.parametrize("count", [1, 100_000])
def test_a_closed_pipe_ends_the_command_quietly(count):
    read_end, write_end = os.pipe()
    os.close(read_end)
    code = PRINT_VERSION.format(count=count)
    process = run_python(code, stdout=write_end)
    os.close(write_end)
    assert (process.returncode, process.stderr) == (141, b"")


class FullAfter:
    """A stream that fails after a number of writes."""

    def __init__(self, count: int, error: OutputError) -> None:
        self.count, self.error = count, error

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        self.count -= 1
        if self.count < 0:
            raise self.error


@pytest.mark.parametrize(
    ("count", "message"), [(2, "the last complete result is number 2"), (0, "no result is complete")]
)
def test_the_last_complete_result_is_named(monkeypatch, count, message):
    monkeypatch.setattr(sys, "stdout", FullAfter(count, OutputError("standard output: full")))
    printer = output.PredictionPrinter("in.txt", "blank", as_json=False)
    with pytest.raises(OutputError, match=f"^standard output: full; {message}$"):
        printer.print([output.Result(InputLine(index, "a"), ["A"]) for index in (1, 2, 3)])


def test_a_closed_pipe_is_not_reported_as_a_full_disk(monkeypatch):
    monkeypatch.setattr(sys, "stdout", FullAfter(1, ClosedPipe("closed")))
    printer = output.PredictionPrinter("in.txt", "blank", as_json=False)
    with pytest.raises(ClosedPipe, match=r"^closed$"):
        printer.print([output.Result(InputLine(index, "a"), ["A"]) for index in (1, 2, 3)])


def test_the_help_documents_the_exit_codes():
    assert all(f"{code} " in EXIT_CODES for code in (0, 1, 2, output.FailedInputs.code, 130, 143, ClosedPipe.code))
    process = run_python("import sys; sys.argv = ['regard', '--help']\nfrom regard.cli.main import main\nmain()")
    assert " ".join(EXIT_CODES.split()) in " ".join(process.stdout.decode().split())
