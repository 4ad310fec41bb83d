"""The log: truncated to a checkpoint without gaps or repeated rows; times are in another file."""

from __future__ import annotations

import json
import sys

import pytest

from regard.core import files
from regard.core.errors import CheckpointError, FileError, MissingExtra
from regard.training import log
from regard.training.checkpoint import Progress
from regard.training.console import SilentConsole
from regard.training.log import JsonlLog, NullReporter, Reporter, TensorBoardWriter, Throughput
from regard.training.run_folder import RunFolder

START = Progress().log


def test_rows_come_back(tmp_path):
    path = tmp_path / "log.jsonl"
    written = JsonlLog(path, START)
    written.add({"step": 1, "valid": {"bleu": 1 / 3}})
    written.add({"step": 2, "loss": float("nan"), "said": "무엇"})
    assert log.read_rows(path) == [{"step": 1, "valid": {"bleu": 1 / 3}}, {"step": 2, "loss": None, "said": "무엇"}]
    assert log.read_rows(tmp_path / "none.jsonl") == []


def test_what_came_after_the_checkpoint_is_cut_off(tmp_path):
    path = tmp_path / "log.jsonl"
    written = JsonlLog(path, START)
    written.add({"step": 1})
    position = written.position()
    written.add({"step": 2})
    with path.open("ab") as file:
        file.write(b'{"step": 3, "lo')
    with pytest.raises(CheckpointError, match=r"a line is not JSON; resuming the run removes it"):
        log.read_rows(path)
    again = JsonlLog(path, position)
    again.add({"step": 2})
    assert log.read_rows(path) == [{"step": 1}, {"step": 2}]
    assert again.position() == JsonlLog(path, again.position()).position()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (b"", "12 of its 12 bytes are missing"),
        (b'{"step": 9}\n', "its content was changed"),
        (b'{"step": 1}\r\n', "its line endings were changed"),
    ],
)
def test_a_log_that_was_changed_is_named_with_what_can_be_done(tmp_path, damage, words):
    path = tmp_path / "log.jsonl"
    written = JsonlLog(path, START)
    written.add({"step": 1})
    position = written.position()
    path.write_bytes(damage)
    message = rf"has changed since the checkpoint \({words}\); restore it .*new_log=True"
    with pytest.raises(CheckpointError, match=message):
        JsonlLog(path, position)


def test_a_full_disk_is_one_clear_line(tmp_path, monkeypatch):
    written = JsonlLog(tmp_path / "log.jsonl", START)
    monkeypatch.setattr(files, "open_for_update", full)
    with pytest.raises(FileError, match=r"log\.jsonl: could not be written \(No space left on device\)"):
        written.add({"step": 1})


def full(*_, **__):
    raise OSError(28, "No space left on device")


def test_tensorboard_gets_every_number(tmp_path, monkeypatch):
    written = []

    class Writer:
        def __init__(self, folder, purge_step):
            written.append((folder, purge_step))

        def add_scalar(self, name, value, step):
            written.append((name, value, step))

        def flush(self):
            pass

    monkeypatch.setattr(log, "require", lambda *_, **__: type("module", (), {"SummaryWriter": Writer}))
    TensorBoardWriter(tmp_path, 4).add({"step": 5, "loss": 2.0, "valid": {"bleu": 3.0}, "best": True, "end": "steps"})
    assert written == [(str(tmp_path), 5), ("loss", 2.0, 5), ("valid/bleu", 3.0, 5)]


def test_tensorboard_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[tensorboard\]'"):
        TensorBoardWriter(tmp_path, 0)


class Collector(SilentConsole):
    def __init__(self):
        self.rows = []

    def show_row(self, row, *, remaining_s):
        self.rows.append((row, remaining_s))


def test_times_go_to_their_own_file_and_to_the_console(tmp_path):
    folder, console, board = RunFolder(tmp_path), Collector(), Collector()
    board.add = board.rows.append
    report = Reporter(folder, console, position=Progress().log, tensorboard=board, throughput_unit="documents")
    report.add({"step": 1, "loss": 2.0}, throughput=Throughput(count=100, seconds=0.5), remaining_s=9.0)
    report.add({"step": 1, "end": "steps"})
    assert folder.log.read_text() == '{"step": 1, "loss": 2.0}\n{"step": 1, "end": "steps"}\n'
    assert json.loads(folder.timing.read_text()) == {"step": 1, "seconds": 0.5, "documents/s": 200}
    assert console.rows == [({"step": 1, "loss": 2.0, "documents/s": 200}, 9.0), ({"step": 1, "end": "steps"}, None)]
    assert board.rows == [{"step": 1, "loss": 2.0}, {"step": 1, "end": "steps"}]
    assert report.position()["bytes"] == folder.log.stat().st_size


def test_other_processes_report_nothing():
    mute = NullReporter()
    mute.add({"step": 1})
    assert mute.position() == {}
