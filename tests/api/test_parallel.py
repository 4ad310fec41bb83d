"""Pieces of work in several processes: order, laziness, errors, death."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
from torch import nn

from regard.api.parallel import MAX_PENDING_PER_PROCESS, WorkerError, map_in_order
from regard.core import cpu
from regard.core.cpu import MIN_PARALLEL_DIM, available_cores, is_idle, recommended_threads
from regard.core.errors import DataError

pytestmark = pytest.mark.skipif(
    available_cores() == 1 and not hasattr(os, "fork"), reason="processes cannot be forked here"
)


def nothing():
    pass


def slow_at_first(piece):
    time.sleep(0.05 if piece == 0 else 0.0)
    return piece, os.getpid()


def test_results_come_in_the_order_of_the_pieces():
    found = list(map_in_order(slow_at_first, range(9), processes=2, initializer=nothing))
    assert [piece for piece, _ in found] == list(range(9))
    assert os.getpid() not in {process for _, process in found}


def test_no_pieces_no_results():
    assert list(map_in_order(slow_at_first, [], processes=2, initializer=nothing)) == []


def test_pieces_are_read_as_they_are_needed():
    read = []

    def pieces():
        for number in range(1000):
            read.append(number)
            yield number

    results = map_in_order(slow_at_first, pieces(), processes=2, initializer=nothing)
    next(results)
    assert len(read) <= 2 * MAX_PENDING_PER_PROCESS + 2
    results.close()


def test_where_the_next_piece_must_be_waited_for_all_results_come_first():
    given = []

    def pieces():
        for piece in (0, 1, None, 2):
            given.append(piece)
            yield piece

    results = map_in_order(slow_at_first, pieces(), processes=2, initializer=nothing)
    assert [next(results)[0], next(results)[0]] == [0, 1] and given == [0, 1, None]
    assert [piece for piece, _ in results] == [2]


def test_every_process_begins():
    begun = []
    found = list(map_in_order(lambda _: len(begun), range(4), processes=2, initializer=lambda: begun.append(1)))
    assert found == [1] * 4 and begun == []


def test_an_error_of_ours_is_raised_here():
    def refuse(piece):
        raise DataError(f"piece {piece} is wrong; mend it")

    with pytest.raises(DataError, match="piece 0 is wrong; mend it"):
        list(map_in_order(refuse, [0], processes=2, initializer=nothing))


def test_a_process_that_dies_is_an_error():
    def die(piece):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(
        WorkerError, match="a worker process died; if memory ran out, try again with one process: --workers 1"
    ):
        list(map_in_order(die, range(3), processes=2, initializer=nothing))


def test_who_stops_asking_leaves_no_process_and_no_complaint(capfd):
    results = map_in_order(slow_at_first, iter(int, 1), processes=2, initializer=nothing)  # pieces without end
    next(results)
    results.close()
    assert multiprocessing.active_children() == []
    assert capfd.readouterr().err == ""


def test_workers_end_when_their_parent_is_killed():
    code = (
        "import os\n"
        "from regard.api.parallel import in_order\n"
        "for pid in in_order(lambda piece: os.getpid(), iter(int, 1), processes=2, begin=lambda: None):\n"
        "    print(pid, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline()
        parent.kill()
        parent.communicate(timeout=30)  # until the last process that could write there is gone


def test_wide_models_have_all_threads_for_few_sentences_and_narrow_ones_one():
    narrow = nn.Sequential(
        nn.Embedding(8 * MIN_PARALLEL_DIM, MIN_PARALLEL_DIM // 4),
        nn.Linear(MIN_PARALLEL_DIM // 4, 8 * MIN_PARALLEL_DIM),
    )
    assert recommended_threads(narrow) == 1
    assert (
        recommended_threads(nn.Sequential(narrow, nn.Linear(MIN_PARALLEL_DIM, MIN_PARALLEL_DIM))) == available_cores()
    )


@pytest.mark.parametrize(("told", "idle"), [("1/80", True), ("2/80", False), ("12/300", False), ("x", False)])
def test_a_machine_is_idle_while_nothing_else_runs(monkeypatch, tmp_path, told, idle):
    monkeypatch.setattr(cpu, "LOADAVG_PATH", tmp_path / "loadavg")
    assert not is_idle()  # nobody says
    cpu.LOADAVG_PATH.write_text(f"0.20 0.18 0.12 {told} 11206\n")
    assert is_idle() == idle
    cpu.LOADAVG_PATH.write_text("")
    assert not is_idle()


def test_what_the_system_does_for_a_moment_does_not_count(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu, "LOADAVG_PATH", tmp_path / "loadavg")
    cpu.LOADAVG_PATH.write_text("0.20 0.18 0.12 2/80 11206\n")
    monkeypatch.setattr(
        time, "sleep", lambda after: after and cpu.LOADAVG_PATH.write_text("0.20 0.18 0.12 1/80 11206\n")
    )
    assert is_idle()
