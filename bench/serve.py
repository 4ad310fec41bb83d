"""Throughput of a server under load: `python bench/serve.py [RUN…] [--minutes 10] [--page docs/serve_load.md]`.

Starts `regard serve` in its own process and sends requests from 1, 10, 50 and 200 clients. Every client sends one
request after the other and compares each response with the prediction of the run without a server. Lost, mixed-up and
different responses are counted. The table also has the rate of the same engine (auto) on a corpus without a server,
the memory of the server, and its CPU time per request, which is more reliable than wall time on a shared machine. The
clients run on the same machine; their CPU time is reported too. With --also 2, the largest number of clients also
uses a server of two processes. With --minutes, 50 clients then send requests to all runs for this long, and the
memory is recorded over time. Without RUN, four small runs are first trained in --folder, in about three minutes:
translation, captioning, classification and generation.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from page_sections import put
from serve_clients import ExpectedResponse, load, request

import regard
from regard.serve.client import Client
from regard.serve.server import set_torch_threads

KINDS = 32  # different inputs
SOAK_CLIENTS = 50
TICK = os.sysconf("SC_CLK_TCK")
RECIPES = Path(__file__).parents[1] / "recipes"
RUNS = {
    "translation": [str(RECIPES / "demo.toml"), "model.preset=tiny", "training.steps=250"],
    "captioning": [str(RECIPES / "scenes_caption_transformer.toml"), "data.scenes=1000", "training.steps=120"],
    "classification": [str(RECIPES / "reviews_en.toml"), "training.epochs=none", "training.steps=100"],
    "language": ["language", "model=gpt", "model.preset=small", "data.vocab_size=1000", "data.context=64"],
}
MORE = {"language": ["data.eval_tokens=2000", "training.steps=150"]}
OPTIONS = {"language": {"tokens": 40}}  # of the requests, by task


def train_run(folder, name):
    """Train a run if it does not exist yet; return its folder."""
    if not (folder / name / "model.safetensors").is_file():
        words = [*RUNS[name], *MORE.get(name, ())]
        steps = next(word for word in words if word.startswith("training.steps="))
        every = steps.replace("training.steps", "training.evaluation.every")
        command = [sys.executable, "-m", "regard", "train", *words, every]
        subprocess.run([*command, "--out", str(folder / name)], check=True, stdout=subprocess.DEVNULL)
    return folder / name


def start_server(runs, workers):
    """Return the process of a server and its address."""
    command = [sys.executable, "-m", "regard", "serve", *map(str, runs), "--port", "0", "--workers", str(workers)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    host, port = re.search(r"http://([\d.]+):(\d+)/", server.stdout.readline()).groups()
    return server, (host, int(port))


def processes(pid):
    """Return the ids of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return [pid, *map(int, children)]


def memory(pid):
    """Return the resident memory of all processes of a server in MB."""
    sizes = [Path(f"/proc/{process_id}/status").read_text(encoding="utf-8") for process_id in processes(pid)]
    return sum(int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) for text in sizes) / 1024


def cpu_seconds_of(pid):
    """Return the CPU time of all processes of a server."""
    facts = [Path(f"/proc/{fields}/stat").read_text(encoding="utf-8").rpartition(")")[2] for fields in processes(pid)]
    return sum(sum(map(int, fields.split()[11:13])) for fields in facts) / TICK


def inputs_of(run):
    """Return the examples of the task, and prefixes of texts, so that lengths differ."""
    inputs = list(run.task.examples)
    if not run.task.input_suffixes:
        words = [text.split() for text in inputs if text]
        inputs += [" ".join(words_[:length]) for words_ in words for length in range(2, len(words_))]
    return list(dict.fromkeys(inputs))[:KINDS]


class ServedRun:
    """A served run: its requests with the expected responses, and its speed on a corpus without a server."""

    def __init__(self, folder, address, *, seconds):
        run, self.single, self.rows = regard.load(folder), 0.0, []
        set_torch_threads([run.model], processes=1)
        client = Client(f"http://{address[0]}:{address[1]}", Path(folder).resolve().name)
        self.options = OPTIONS.get(run.recipe.task.name, {})
        self.title = f"{client.name}: {client.about['model']} for {client.about['task']}"
        self.expected, texts = [], []
        for text in inputs_of(run):
            try:
                outputs = [prediction.text for prediction in run.predict([text], **self.options)[0]]
            except regard.RegardError:
                continue  # a prefix of an example may be invalid
            body = json.dumps(client._predict_body([text], self.options)).encode()
            self.expected.append(ExpectedResponse(request(address, client.verb, body), outputs))
            texts.append(text)
        corpus = (texts * (512 // len(texts) + 1))[:512]
        run = regard.load(folder, engine="auto")  # as the server does
        run.predict(corpus, **self.options)
        started_at, cpu, count = time.monotonic(), time.process_time(), 0
        while not count or time.monotonic() - started_at < seconds:
            run.predict(corpus, **self.options)
            count += len(corpus)
        self.rate = count / (time.monotonic() - started_at)
        self.cost = 1000 * (time.process_time() - cpu) / count


TITLES = (
    "| clients | inputs/s | ratio to one client | ratio to the corpus | p50 ms | p99 ms | CPU ms, server "
    "| CPU ms, clients | refused | lost | wrong | MB |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
)


def measure(subject, server, address, *, clients, seconds):
    """Create the table of one run."""
    subject.rows = [
        f"### {subject.title}\n",
        *TITLES,
        f"| corpus, no server | {subject.rate:.1f} | | 1 | | | {subject.cost:.2f} | | | | | |",
    ]
    for count in clients:
        measure_one(subject, server, address, count=count, seconds=seconds, label=str(count))


def measure_one(subject, server, address, *, count, seconds, label):
    """Add a row for `count` clients."""
    before, client_cpu = cpu_seconds_of(server.pid), time.process_time()
    started_at = time.monotonic()
    result = load(address, subject.expected, clients=count, seconds=seconds)
    speed = len(result.seconds) / (time.monotonic() - started_at)
    cpu_seconds = cpu_seconds_of(server.pid) - before, time.process_time() - client_cpu
    cost = " | ".join(f"{1000 * seconds_ / max(1, len(result.seconds)):.3f}" for seconds_ in cpu_seconds)
    subject.single = subject.single or speed
    wrong_text = ", ".join(f"{count_} {kind}" for kind, count_ in result.wrong.items()) or 0
    times = f"{1000 * result.quantile(0.5):.0f} | {1000 * result.quantile(0.99):.0f}"
    subject.rows.append(
        f"| {label} | {speed:.1f} | {speed / subject.single:.2f} | {speed / subject.rate:.2f} | {times} | {cost} "
        f"| {result.refused} | {result.lost} | {wrong_text} | {memory(server.pid):.0f} |"
    )
    print(subject.rows[-1], flush=True)
    if result.example:
        print("wrong:", result.example)


def measure_processes(subjects, runs, *, workers, count, seconds):
    """Add a row for each run: the largest number of clients, with a server of several processes."""
    server, address = start_server(runs, workers)
    try:
        for subject in subjects:
            print(f"\n{subject.title}")
            load(address, subject.expected, clients=count, seconds=max(2, seconds / 5))  # until every process is ready
            label = f"{count}, {workers} processes"
            measure_one(subject, server, address, count=count, seconds=seconds, label=label)
    finally:
        server.terminate()
        server.wait(60)


def soak(subjects, server, address, *, minutes):
    """Send requests to all runs for some minutes; return the memory over time."""
    results = []
    each = max(1, SOAK_CLIENTS // len(subjects))
    threads = [
        threading.Thread(
            target=lambda expected=subject.expected: results.append(
                load(address, expected, clients=each, seconds=60 * minutes)
            )
        )
        for subject in subjects
    ]
    started_at, rows = time.monotonic(), []
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        rows.append((time.monotonic() - started_at, memory(server.pid)))
        time.sleep(max(0.5, 3 * minutes))
    for thread in threads:
        thread.join()
    every = max(1, len(rows) // 10)
    columns = [row for index, row in enumerate(rows) if index % every == 0 or index == len(rows) - 1]
    counts = [
        sum(len(result.seconds) for result in results),
        sum(result.refused for result in results),
        sum(result.lost for result in results),
    ]
    wrong = sum(result.wrong.total() for result in results)
    summary = "{:,} answered, {:,} refused, {:,} lost, {:,} wrong".format(*counts, wrong)
    times = " | ".join(f"{seconds / 60:.1f}" for seconds, _ in columns)
    sizes = " | ".join(f"{size:.0f}" for _, size in columns)
    line = "|" + "---|" * (len(columns) + 1)
    table = f"| minute | {times} |\n{line}\n| MB | {sizes} |"
    text = f"{each * len(subjects)} clients for {minutes:g} minutes: {summary}.\n\n{table}"
    print(text)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", type=Path, help="run folders; without any, four runs are trained"
    )
    parser.add_argument("--folder", type=Path, help="folder of the four runs (default: a temporary folder)")
    parser.add_argument("--clients", default="1,10,50,200", help="numbers of concurrent clients, separated by commas")
    parser.add_argument("--seconds", type=float, default=10, help="for each number of clients, and for the corpus")
    parser.add_argument("--workers", type=int, default=1, help="processes of the server")
    parser.add_argument(
        "--also", type=int, default=0, help="add a row: the largest number of clients, with this many processes"
    )
    parser.add_argument("--minutes", type=float, default=0, help="length of a soak test at the end")
    parser.add_argument("--page", type=Path, help="write the tables between the markers of this page")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        runs = args.runs or [train_run(args.folder or Path(temporary), name) for name in RUNS]
        server, address = start_server(runs, args.workers)
        try:
            subjects = [ServedRun(folder, address, seconds=args.seconds / 2) for folder in runs]
            counts = [int(count) for count in args.clients.split(",")]
            for subject in subjects:
                print(f"\n{subject.title}: {subject.rate:.1f} inputs/s as a corpus, {subject.cost:.2f} ms each")
                measure(subject, server, address, clients=counts, seconds=args.seconds)
            soaked = soak(subjects, server, address, minutes=args.minutes) if args.minutes else ""
        finally:
            server.terminate()
            server.wait(60)
        if args.also:
            measure_processes(subjects, runs, workers=args.also, count=max(counts), seconds=args.seconds)
    if args.page:
        machine = f"{os.cpu_count()} cores, {platform.machine()}, {args.seconds:g} seconds each"
        where = f"{machine}; server processes: {args.workers}, unless a row says otherwise.\n\n"
        put(args.page, "load", where + "\n\n".join("\n".join(subject.rows) for subject in subjects))
        if soaked:
            put(args.page, "soak", soaked)


if __name__ == "__main__":
    main()
