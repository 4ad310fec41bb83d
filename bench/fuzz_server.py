"""Fuzzing of the server: each request must be answered, or refused in one line.

    python bench/fuzz_server.py --requests 100000 --page docs/reliability.md

Trains a tiny run of every task (a minute), starts `regard serve` with all of them on this machine, and sends several
requests at a time over sockets: corrupted JSON, options, texts, images and MIDI; inspections; bytes that are not HTTP.
They are random with a fixed seed. Broken are: status 500, a response that is not JSON or not one line, a path of the
server, no response within 75 seconds, a server that dies. The server's memory, threads and open files are recorded.
`--one 17` repeats one request and prints the response.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from fuzz_cases.served import HERE, Maker
from page_sections import put
from serve import cpu_seconds_of, memory, processes

from regard.core import config as configs
from regard.core.registry import find, registered_names
from regard.tasks import compatible_models
from regard.training import recipe as recipes
from regard.training import train as runs
from regard.training.console import SilentConsole

STEPS = ["training.steps=3", "training.evaluation.every=3"]
SMALL = {
    "translation": ["data.vocab_size=300", "data.pairs=200", "decoding=greedy"],
    "language": ["data.vocab_size=300", "data.context=32", "data.batch_size=2", "data.eval_tokens=200"],
    "masked_language": ["data.vocab_size=300", "data.context=32", "data.batch_size=2", "data.eval_tokens=200"],
    "classification": ["data.examples=40", "data.batch_size=8"],
    "tagging": ["data.examples=40", "data.batch_size=8"],
}
PATIENCE, AT_ONCE = 75.0, 8
LEFT = 0.5  # seconds after which a client that sent half of a request disconnects; the server may wait for the rest
NAMES = {
    "verbs": "JSON, options and texts", "files": "images, MIDI and other files", "looks": "inspections and what-if",
    "pages": "addresses and headers", "bytes": "bytes that are not a request",
}  # fmt: skip
ANSWERED, REFUSED, BROKEN = "answered", "refused", "broken"


def train(folder: Path) -> list[Path]:
    """Train a tiny run of every task."""
    for task in registered_names("regard.tasks"):
        if not (folder / task / "model.safetensors").is_file():
            model = compatible_models(find("regard.tasks", task).SPEC)[0]
            tiny = {"model": {"name": model, **configs.to_dict(find("regard.models", model).TINY)}}
            whole = recipes.read(task, settings=[f"model={model}", *SMALL.get(task, []), *STEPS]).to_dict()
            runs.train(recipes.from_dict(configs.merge(whole, tiny)), folder / task, console=SilentConsole())
    return [folder / task for task in registered_names("regard.tasks")]


async def send(address: tuple[str, int], content: bytes) -> bytes:
    """Send a request and return the complete response."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(content)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if length:
            return head + await reader.readexactly(int(length[1]))
        return head + await reader.read()
    except asyncio.IncompleteReadError as cut:
        return cut.partial
    except (ConnectionResetError, BrokenPipeError, asyncio.LimitOverrunError):
        return b""
    finally:
        writer.close()


def judge(kind: str, response: bytes) -> tuple[str, str]:
    """Response of the server -> outcome of the request, and the problem of the response, if any."""
    head, _, body = response.partition(b"\r\n\r\n")
    if not response:
        return (REFUSED, "") if kind == "bytes" else (BROKEN, "no answer")
    status = int(head[9:12]) if head[:7] == b"HTTP/1." and head[9:12].isdecimal() else 0
    text = body.decode("utf-8", "replace")
    if "Traceback" in text or "/regard-" in text:
        return BROKEN, f"{status}: shows its inside: {text[:300]}"
    if status == 200:
        return ANSWERED, ""
    if not 400 <= status < 500 and status != 503:
        return BROKEN, f"{status}: {text[:300]}"
    if b"text/html" in head or b"application/json" not in head:  # a page, or the web server's own word
        return REFUSED, ""
    line = json.loads(text).get("error", "")
    return (REFUSED, "") if line and len(line.splitlines()) == 1 else (BROKEN, f"{status}: not one line: {text[:300]}")


class Results:
    """The outcomes of all requests."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.slowest: dict[str, float] = defaultdict(float)
        self.broken: list[str] = []
        self.unavailable: list[int] = []  # requests with status 503: the server is busy, or 60 seconds are over
        self.sizes: list[tuple[int, float, int, int]] = []

    async def attempt(self, maker: Maker, number: int) -> None:
        kind, content = maker.make(number)
        started_at = time.monotonic()
        patience = LEFT if kind == "bytes" else PATIENCE
        try:
            response = await asyncio.wait_for(send((HERE, maker.port), content), patience)
            outcome, why = judge(kind, response)
            if response[9:12] == b"503":
                self.unavailable.append(number)
                print(f"{number} ({kind}): 503 after {time.monotonic() - started_at:.0f} s", flush=True)
        except TimeoutError:
            outcome, why = (REFUSED, "") if kind == "bytes" else (BROKEN, f"no answer within {PATIENCE:g} s")
        except (OSError, ValueError) as error:
            outcome, why = BROKEN, repr(error)
        self.outcomes[kind][outcome] += 1
        self.slowest[kind] = max(self.slowest[kind], time.monotonic() - started_at)
        if why:
            self.broken.append(f"{number} ({kind}): {why}")
            print(self.broken[-1][:400], flush=True)

    def note(self, number: int, pid: int) -> None:
        """Record the memory, threads and open files of the server."""
        files = sum(len(list(Path(f"/proc/{process_id}/fd").iterdir())) for process_id in processes(pid))
        threads = sum(len(list(Path(f"/proc/{process_id}/task").iterdir())) for process_id in processes(pid))
        self.sizes.append((number, memory(pid), threads, files))
        print(f"{number:,}: {self.sizes[-1][1]:.0f} MB, {threads} threads, {files} files", flush=True)


async def attack(maker: Maker, numbers_of_requests: range, pid: int) -> Results:
    """Send all requests, a few at a time, in ten parts."""
    results, parts, count = Results(), 10, len(numbers_of_requests)
    results.note(numbers_of_requests.start, pid)
    for part in range(parts):
        numbers = iter(numbers_of_requests[part * count // parts : (part + 1) * count // parts])

        async def client(numbers=numbers) -> None:
            for index in numbers:
                await results.attempt(maker, index)

        await asyncio.gather(*(client() for _ in range(AT_ONCE)))
        results.note(numbers_of_requests.start + (part + 1) * count // parts, pid)
    return results


def describe(results: Results, *, seed: int, seconds: float, cpu: float, failed: int) -> str:
    """Format the tables."""
    total = sum(sum(counts_by_outcome.values()) for counts_by_outcome in results.outcomes.values())
    rows = []
    for kind, name in NAMES.items():
        counts = results.outcomes[kind]
        cells = (sum(counts.values()), *(counts[outcome] for outcome in (ANSWERED, REFUSED, BROKEN)))
        rows.append(f"| {name} | {' | '.join(f'{cell:,}' for cell in cells)} | {results.slowest[kind]:.1f} |")
    facts = [(f"{index:,}", f"{size:.0f}", threads, files) for index, size, threads, files in results.sizes]
    columns = [list(map(str, column)) for column in zip(*facts, strict=True)]
    labels = ("requests", "MB", "threads", "open files")
    lines = [f"| {label} | {' | '.join(column)} |" for label, column in zip(labels, columns, strict=True)]
    lines.insert(1, "|" + "---|" * (len(facts) + 1))
    to = f"to a run of each of the {len(registered_names('regard.tasks'))} tasks"
    text = f"""{total:,} requests with seed {seed}, {AT_ONCE} at a time, {to}. The server used {cpu / 60:.0f} minutes
of CPU time in {seconds / 60:.0f} minutes, next to other work. Requests that failed by a bug in regard: {failed}.
Requests with status 503, because the server is busy or 60 seconds are over: {len(results.unavailable)}.

| request | requests | answered | refused in one line | broken | slowest, s |
|---|---|---|---|---|---|"""
    return "\n".join([text, *rows, "", *lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first request: continues an earlier run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--folder", type=Path, help="folder of the runs, trained if missing; default: a temporary folder"
    )
    parser.add_argument("--one", type=int, help="repeat one request, by its index")
    parser.add_argument("--page", type=Path, help="write the tables between the markers of this page")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folders = train(args.folder or Path(temporary))
        log = Path(temporary, "log")
        command = [sys.executable, "-m", "regard", "serve", *map(str, folders), "--port", "0"]
        with log.open("w") as errors:
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            port = int(re.search(r":(\d+)/", server.stdout.readline()).group(1))
            maker = Maker(folders, port, args.seed)
            if args.one is not None:
                kind, content = maker.make(args.one)
                print(kind, content[:3000], asyncio.run(send((HERE, port), content))[:3000], sep="\n")
                return print(log.read_text())
            started_at, before = time.monotonic(), cpu_seconds_of(server.pid)
            results = asyncio.run(attack(maker, range(args.first, args.requests), server.pid))
            seconds, cpu = time.monotonic() - started_at, cpu_seconds_of(server.pid) - before
        finally:
            server.terminate()
            code = server.wait(60)
        failed = log.read_text(errors="replace").count("a request failed")
        if failed:
            print(log.read_text(errors="replace")[-4000:])
    text = describe(results, seed=args.seed, seconds=seconds, cpu=cpu, failed=failed)
    print(text)
    if args.page:
        put(args.page, "served", text)
    if results.broken or failed or code not in (0, -15):
        raise SystemExit(f"{len(results.broken)} broken, {failed} failed, the server ended with {code}")


if __name__ == "__main__":
    main()
