"""Pieces by a cluster: in order, and those of a worker that dies are done again."""

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
    """Work whose worker is killed at one of the pieces, the first time that it comes."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, piece: str) -> str:
        if piece == "7" and not self.mark.exists():
            self.mark.write_text(str(os.getpid()), encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        return f"{piece} in {os.getcwd()}"


@pytest.mark.filterwarnings("default")  # Ray's own
def test_a_killed_worker_s_part_is_done_again_and_the_order_is_kept(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'regard[ray]'")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_engine, "CHAPTER", 9)
    mark = tmp_path / "killed"
    with ray_engine.connect(ray_engine.LOCAL) as ray:
        assert ray_engine.cluster_cpus(ray) >= 1
        found = list(ray_engine.map_in_order(Fragile(mark), map(str, range(14)), ray=ray, workers=2))
    assert found == [f"{number} in {tmp_path}" for number in range(14)]
    assert int(mark.read_text(encoding="utf-8")) != os.getpid()


def test_an_address_without_a_cluster_is_one_line(monkeypatch):
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'regard[ray]'")

    def init(**asked):
        raise ConnectionError("could not\nconnect")

    monkeypatch.setattr(ray, "init", init)
    said = r"^--ray 10\.0\.0\.1:6379: no cluster there \(could not connect\); give its address, or local$"
    with pytest.raises(ConfigError, match=said), ray_engine.connect("10.0.0.1:6379"):
        pass
