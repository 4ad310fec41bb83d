"""Mixed requests to one server for a long time: its memory stays below a bound, and is given back.

    python bench/serve_soak.py --requests 20000 --page docs/reliability.md

Serves a tiny run of every task. Of a hundred requests, 80 are predictions of the tasks' examples, 4 are inspections,
12 are tiles whose client hangs up after 50 milliseconds, and 4 are metrics and health. A prediction must be answered or
refused because the server is busy. Resident memory must stay below MAX_MB, and the inspections in memory below their
limit; afterwards an inspection must be answered in time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzz_cases.served import HERE, Maker
from fuzz_server import send, train
from page_sections import put
from serve import memory

import regard
from regard.serve.inspection_cache import MAX_CACHED_BYTES

MAX_MB = 2_500  # resident memory of the server with a run of every task
MAX_LOOK_S = 60.0  # for an inspection right after the last request
AT_ONCE = 8
ABANDON_S = 0.05
SHARES = {"predict": 80, "look": 4, "tile": 12, "page": 4}
BUSY = (429, 503)


class Soak:
    """The clients, and what became of their requests."""

    def __init__(self, folders: list[Path], port: int, seed: int) -> None:
        self.maker, self.port, self.seed = Maker(folders, port, seed), port, seed
        self.statuses: Counter[int] = Counter()
        self.broken: list[str] = []
        self.inspections: list[tuple[str, str]] = []  # run and id
        self.peak_mb = self.peak_inspection_bytes = 0.0

    async def attempt(self, number: int) -> None:
        """Send one request by its number."""
        rng = random.Random(f"{self.seed} soak {number}")
        (kind,) = rng.choices(list(SHARES), list(SHARES.values()))
        if kind == "tile" and self.inspections:
            run, inspection_id = rng.choice(self.inspections)
            query = f"look={inspection_id}&map=0&head=0&level=0&i=0&j=0"
            await self._abandon(self._get(f"/api/{run}/tile?{query}"))
        elif kind == "page":
            await self._observe(await send((HERE, self.port), self._get("/metrics")))
        else:
            await self._use_run(rng.choice(self.maker.runs), rng, kind)

    async def _use_run(self, run: regard.Run, rng: random.Random, kind: str) -> None:
        body = self.maker._body(rng, run)
        if kind == "look":
            content = json.dumps({"run": run.folder.name, "input": body["inputs"][0]}).encode()
            response = await send((HERE, self.port), self.maker._send(rng, "/v1/look", content))
        else:
            response = await send(
                (HERE, self.port), self.maker._send(rng, f"/v1/{run.verbs[0]}", json.dumps(body).encode())
            )
        head, _, text = response.partition(b"\r\n\r\n")
        status = int(head[9:12] or 0)
        self.statuses[status] += 1
        if status == 200 and kind == "look":
            self.inspections = [*self.inspections[-7:], (run.folder.name, json.loads(text)["id"])]
        elif status not in (200, 422, *BUSY):
            self.broken.append(f"{kind} to {run.folder.name}: {status} {text[:200]!r}")

    async def _abandon(self, content: bytes) -> None:
        try:
            status = (await asyncio.wait_for(send((HERE, self.port), content), ABANDON_S))[9:12]
            self.statuses[int(status or 0)] += 1
        except TimeoutError:
            self.statuses["hung up"] += 1  # type: ignore[index]

    def _get(self, path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: {HERE}:{self.port}\r\nConnection: close\r\n\r\n".encode()

    async def _observe(self, response: bytes) -> None:
        size = re.search(rb"^regard_inspection_bytes (\S+)", response, re.MULTILINE)
        self.peak_inspection_bytes = max(self.peak_inspection_bytes, float(size[1]) if size else 0.0)


async def run_clients(soak: Soak, count: int, pid: int) -> None:
    """Send all requests, a few at a time, and watch the memory of the server."""
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            await soak.attempt(number)
            if number % 100 == 0:
                soak.peak_mb = max(soak.peak_mb, memory(pid))
            if number % 2000 == 0:
                print(f"{number:,}: {memory(pid):.0f} MB, {dict(soak.statuses)}", flush=True)

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="folder of the runs, trained if missing")
    parser.add_argument("--page", type=Path, help="write the result between the markers of this page")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folders = train(args.folder or Path(temporary))
        command = [sys.executable, "-m", "regard", "serve", *map(str, folders), "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            match = re.search(r":(\d+)/", server.stdout.readline())
            assert match is not None
            soak = Soak(folders, int(match[1]), args.seed)
            started_at, before = time.monotonic(), memory(server.pid)
            asyncio.run(run_clients(soak, args.requests, server.pid))
            seconds, requested_at = time.monotonic() - started_at, time.monotonic()
            asyncio.run(soak._use_run(soak.maker.runs[-1], random.Random(0), "look"))
            look_s = time.monotonic() - requested_at
            time.sleep(10)
            after = memory(server.pid)
        finally:
            server.terminate()
            server.wait(60)
    text = f"""{args.requests:,} mixed requests in {seconds / 60:.0f} minutes, {AT_ONCE} at a time. Resident memory was
{before:.0f} MB before, {soak.peak_mb:.0f} MB at most (bound: {MAX_MB:,} MB) and {after:.0f} MB afterwards. Inspections
in memory had {soak.peak_inspection_bytes / 1e6:.0f} MB at most (limit: {MAX_CACHED_BYTES / 1e6:.0f} MB). An inspection
right after the last request took {look_s:.1f} seconds. Broken: {len(soak.broken)}.
"""
    print(text, dict(soak.statuses), *soak.broken[:20], sep="\n")
    if args.page:
        put(args.page, "soak", text)
    is_bounded = soak.peak_mb < MAX_MB and soak.peak_inspection_bytes <= MAX_CACHED_BYTES and look_s < MAX_LOOK_S
    if soak.broken or not is_bounded:
        raise SystemExit("a promise was broken")


if __name__ == "__main__":
    main()
