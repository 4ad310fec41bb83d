"""Reports: the log is the same every time, the time taken goes elsewhere."""

from __future__ import annotations

import json

from regard.training.console import Silent
from regard.training.folder import Folder
from regard.training.progress import Progress
from regard.training.report import Mute, Pace, Written


class Collector(Silent):
    def __init__(self):
        self.rows = []

    def show(self, row, *, left):
        self.rows.append((row, left))


def test_times_go_to_their_own_file_and_to_the_console(tmp_path):
    folder, console, board = Folder(tmp_path), Collector(), Collector()
    board.add = board.rows.append
    report = Written(folder, console, position=Progress().log, board=board)
    report.add({"step": 1, "loss": 2.0}, pace=Pace(tokens=100, seconds=0.5), left=9.0)
    report.add({"step": 1, "end": "steps"})
    assert folder.log.read_text() == '{"step": 1, "loss": 2.0}\n{"step": 1, "end": "steps"}\n'
    assert json.loads(folder.timing.read_text()) == {"step": 1, "seconds": 0.5, "tokens/s": 200}
    assert console.rows == [({"step": 1, "loss": 2.0, "tokens/s": 200}, 9.0), ({"step": 1, "end": "steps"}, None)]
    assert board.rows == [{"step": 1, "loss": 2.0}, {"step": 1, "end": "steps"}]
    assert report.position()["bytes"] == folder.log.stat().st_size


def test_other_processes_report_nothing():
    mute = Mute()
    mute.add({"step": 1})
    assert mute.position() == {}
