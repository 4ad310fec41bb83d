"""The Ray engine: results are in order, and the chunks of a worker that dies are repeated."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from regard.core.errors import ConfigError
from regard.engines import ray as ray_engine


class Fragile:
    """Work that kills its worker at one chunk, the first time."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __call__(self, chunk: str) -> str:
        if chunk == "7" and not self.marker.exists():
            self.marker.write_text(str(os.getpid()), encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        return f"{chunk} in {os.getcwd()}"


@pytest.mark.filterwarnings("default")  # warnings of Ray
def test_the_chunks_of_a_killed_worker_are_repeated_in_order(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'regard[ray]'")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_engine, "CHUNKS_PER_DATASET", 9)
    marker = tmp_path / "killed"
    with ray_engine.connect(ray_engine.LOCAL) as ray:
        assert ray_engine.cluster_cpus(ray) >= 1
        results = list(ray_engine.map_in_order(Fragile(marker), map(str, range(14)), ray=ray, workers=2))
    assert results == [f"{index} in {tmp_path}" for index in range(14)]
    assert int(marker.read_text(encoding="utf-8")) != os.getpid()


def test_an_address_without_a_cluster_is_a_one_line_error(monkeypatch):
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'regard[ray]'")

    def init(**options):
        raise ConnectionError("could not\nconnect")

    monkeypatch.setattr(ray, "init", init)
    message = r"^--ray 10\.0\.0\.1:6379: no cluster there \(could not connect\); give its address, or local$"
    with pytest.raises(ConfigError, match=message), ray_engine.connect("10.0.0.1:6379"):
        pass
