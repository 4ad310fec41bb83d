"""Work on chunks in several processes: order, laziness, errors, processes that die."""

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


def no_setup():
    pass


def slow_first_chunk(chunk):
    time.sleep(0.05 if chunk == 0 else 0.0)
    return chunk, os.getpid()


def test_results_come_in_the_order_of_the_chunks():
    results = list(map_in_order(slow_first_chunk, range(9), processes=2, initializer=no_setup))
    assert [chunk for chunk, _ in results] == list(range(9))
    assert os.getpid() not in {process for _, process in results}


def test_no_chunks_no_results():
    assert list(map_in_order(slow_first_chunk, [], processes=2, initializer=no_setup)) == []


def test_chunks_are_read_as_they_are_needed():
    read = []

    def chunks():
        for index in range(1000):
            read.append(index)
            yield index

    results = map_in_order(slow_first_chunk, chunks(), processes=2, initializer=no_setup)
    next(results)
    assert len(read) <= 2 * MAX_PENDING_PER_PROCESS + 2
    results.close()


def test_all_results_come_before_a_chunk_that_is_not_yet_available():
    read = []

    def chunks():
        for chunk in (0, 1, None, 2):
            read.append(chunk)
            yield chunk

    results = map_in_order(slow_first_chunk, chunks(), processes=2, initializer=no_setup)
    assert [next(results)[0], next(results)[0]] == [0, 1] and read == [0, 1, None]
    assert [chunk for chunk, _ in results] == [2]


def test_every_process_is_initialized_once():
    calls = []
    results = list(map_in_order(lambda _: len(calls), range(4), processes=2, initializer=lambda: calls.append(1)))
    assert results == [1] * 4 and calls == []


def test_an_error_of_regard_is_raised_in_the_calling_process():
    def refuse(chunk):
        raise DataError(f"chunk {chunk} is invalid; correct it")

    with pytest.raises(DataError, match="chunk 0 is invalid; correct it"):
        list(map_in_order(refuse, [0], processes=2, initializer=no_setup))


def test_a_process_that_dies_is_an_error():
    def die(chunk):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(
        WorkerError, match="a worker process died; if memory ran out, try again with one process: --workers 1"
    ):
        list(map_in_order(die, range(3), processes=2, initializer=no_setup))


def test_closing_early_leaves_no_process_and_no_message(capfd):
    results = map_in_order(slow_first_chunk, iter(int, 1), processes=2, initializer=no_setup)  # endless chunks
    next(results)
    results.close()
    assert multiprocessing.active_children() == []
    assert capfd.readouterr().err == ""


def test_workers_end_when_their_parent_is_killed():
    code = (
        "import os\n"
        "from regard.api.parallel import map_in_order\n"
        "for pid in map_in_order(lambda _: os.getpid(), iter(int, 1), processes=2, initializer=lambda: None):\n"
        "    print(pid, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline()
        parent.kill()
        parent.communicate(timeout=30)  # returns when the last process that could write has ended


def test_wide_models_use_all_threads_and_narrow_ones_one():
    narrow = nn.Sequential(
        nn.Embedding(8 * MIN_PARALLEL_DIM, MIN_PARALLEL_DIM // 4),
        nn.Linear(MIN_PARALLEL_DIM // 4, 8 * MIN_PARALLEL_DIM),
    )
    assert recommended_threads(narrow) == 1
    assert (
        recommended_threads(nn.Sequential(narrow, nn.Linear(MIN_PARALLEL_DIM, MIN_PARALLEL_DIM))) == available_cores()
    )


@pytest.mark.parametrize(("processes", "idle"), [("1/80", True), ("2/80", False), ("12/300", False), ("x", False)])
def test_a_machine_is_idle_if_no_other_process_runs(monkeypatch, tmp_path, processes, idle):
    monkeypatch.setattr(cpu, "LOADAVG_PATH", tmp_path / "loadavg")
    assert not is_idle()  # no such file
    cpu.LOADAVG_PATH.write_text(f"0.20 0.18 0.12 {processes} 11206\n")
    assert is_idle() == idle
    cpu.LOADAVG_PATH.write_text("")
    assert not is_idle()


def test_short_background_activity_does_not_count(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu, "LOADAVG_PATH", tmp_path / "loadavg")
    cpu.LOADAVG_PATH.write_text("0.20 0.18 0.12 2/80 11206\n")
    monkeypatch.setattr(
        time, "sleep", lambda seconds: seconds and cpu.LOADAVG_PATH.write_text("0.20 0.18 0.12 1/80 11206\n")
    )
    assert is_idle()
