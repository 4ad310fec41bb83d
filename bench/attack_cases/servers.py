"""Attacks on a running server: signals under load, a greedy client, and names that are HTML."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from attack_cases.outcome import Outcome
from attack_cases.processes import TEXT, _train

SCRIPTS = ("<script>window.pwned=1</script>", "<img src=x onerror=window.pwned=1>", "\"'><svg onload=window.pwned=1>")
PATIENCE_S = 75.0


@contextmanager
def _serving(*runs: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "regard", "serve", *map(str, runs), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        match = re.search(r":(\d+)/", server.stdout.readline())
        assert match is not None
        yield server, int(match[1])
    finally:
        server.kill()
        server.wait()


def _ask(port: int, source: str = "127.0.0.1", text: str = TEXT, inputs: int = 1) -> tuple[int, float]:
    """Send a request from a source address -> status (0: no connection, -1: half a response), and seconds."""
    started_at = time.monotonic()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S, source_address=(source, 0))
        body = json.dumps({"inputs": [text] * inputs})
        connection.request("POST", "/v1/translate", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        json.loads(response.read())
        return response.status, time.monotonic() - started_at
    except (TimeoutError, ConnectionError):
        return 0, time.monotonic() - started_at
    except (http.client.HTTPException, ValueError):
        return -1, time.monotonic() - started_at


def terminated_under_load(work: Path) -> Outcome:
    """Send SIGTERM while many requests are active."""
    outcome = Outcome(note="every request gets its answer, 503 or no connection; the server ends with 0 in time")
    run = _train(work)
    for round_index in range(3):
        with _serving(run) as (server, port), ThreadPoolExecutor(64) as pool:
            answers = [pool.submit(_ask, port, inputs=8) for _ in range(200)]
            time.sleep(0.3 + 0.3 * round_index)
            server.send_signal(signal.SIGTERM)
            for answer in answers:
                status, _ = answer.result()
                outcome.check(status in (0, 200, 429, 503), f"status {status}")
            code = server.wait(60)
            outcome.check(code in (0, -signal.SIGTERM), f"the server ended with {code}")
            assert server.stderr is not None
            outcome.check("Traceback" not in server.stderr.read(), "a traceback in the log")
    return outcome


def one_client_against_many(work: Path) -> Outcome:
    """Fill the queue from one client while clients with other addresses send single requests."""
    outcome = Outcome(note="the others are answered before the greedy client's queue is empty")
    with _serving(_train(work)) as (_, port), ThreadPoolExecutor(80) as pool:
        greedy = [pool.submit(_ask, port, text=f"{TEXT} {index}", inputs=16) for index in range(60)]
        time.sleep(0.2)
        others = [pool.submit(_ask, port, f"127.0.0.{index}") for index in range(2, 12)]
        waits = [answer.result() for answer in others]
        longest = max(seconds for _, seconds in [answer.result() for answer in greedy])
        for status, seconds in waits:
            outcome.check(
                status == 200 and seconds <= longest, f"status {status} after {seconds:.1f} of {longest:.1f} s"
            )
    return outcome


def names_in_a_browser(work: Path) -> Outcome:
    """Show pages whose run name, input, class names and errors are HTML with scripts."""
    outcome = Outcome(note="no script of a name runs")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        return Outcome(0, [], "no browser: not tried")
    from playwright.sync_api import sync_playwright

    run = _train(work)
    runs = [run.rename(run.with_name(f"run{SCRIPTS[1].replace('/', '')}")), run.with_name("second")]
    shutil.copytree(runs[0], runs[1])
    with _serving(*runs) as (_, port), sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        for text in SCRIPTS:
            for path in ("/", "/docs", f"/{text}", "/?run=" + text):
                page.goto(
                    f"http://127.0.0.1:{port}{path.replace(' ', '%20')}" + ("" if path != "/" else f"?text={text}")
                )
                page.wait_for_timeout(300)
                outcome.check(page.evaluate("window.pwned") is None, f"{path}: a script ran")
        browser.close()
    return outcome
