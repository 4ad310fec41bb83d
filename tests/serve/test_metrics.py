"""Metrics of one process, and of several together."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")

from regard.serve.metrics import MULTIPROC_DIR_ENV, Metrics


def test_requests_batches_and_queue_lengths():
    metrics, queued = Metrics(), [3]
    metrics.register_queue("a", lambda: queued[0])
    metrics.observe_request("a", "tag", 200, 0.5)
    metrics.observe_batch("a", 4)
    metrics.observe_batch("a", 3, searched=True)
    metrics.observe_step("a", 2)
    page, media_type = metrics.page()
    assert media_type.startswith("text/plain")
    for line in (
        'regard_requests_total{run="a",status="200",verb="tag"} 1.0',
        'regard_inputs_total{run="a"} 7.0',
        'regard_batch_inputs_count{run="a"} 2.0',
        'regard_batch_inputs_sum{run="a"} 6.0',
        'regard_waiting_inputs{run="a"} 3.0',
    ):
        assert line in page.decode()
    queued[0] = 0
    assert 'regard_waiting_inputs{run="a"} 0.0' in metrics.page()[0].decode()


def test_several_processes_report_their_totals(tmp_path):
    """The counts of an ended process remain; its queue length does not."""
    code = "\n".join(
        [
            "from regard.serve.metrics import Metrics",
            "metrics = Metrics()",
            "metrics.register_queue('a', lambda: 5)",
            "metrics.observe_request('a', 'tag', 200, 0.1)",
            "print(metrics.page()[0].decode())",
        ]
    )
    pages = []
    for _ in range(2):
        environment = os.environ | {MULTIPROC_DIR_ENV: str(tmp_path)}
        process = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        pages.append(process.stdout)
    for count, page in enumerate(pages, start=1):
        assert f'regard_requests_total{{run="a",status="200",verb="tag"}} {count}.0' in page
        assert 'regard_waiting_inputs{run="a"} 5.0' in page
