"""How much a server does at a time: `python bench/serve.py [RUN…] [--minutes 10] [--page docs/serve_load.md]`.

Starts `regard serve` in a process of its own and asks it with 1, 10, 50 and 200 clients. Every client sends one request
after the other and compares each answer with what the run answers alone; lost, mixed-up and different answers are
counted. Beside that: the same engine (auto) on a corpus, in one process without a server; how many milliseconds of a
processor the server takes for a request, which says more than the clock on a machine that does other things; its
memory. With --also 2 the most clients ask a server of two processes too. The clients run beside it and compare every
answer; what they cost is told too. With --minutes the server is then asked by 50 clients for that long, all runs at
once, and its memory is written down over time. Without RUN, four small runs are trained in --folder first, about three
minutes: translation, captioning, classification and generation.
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
from serve_clients import Asked, load, request

import regard
from regard.serve.client import Client
from regard.serve.server import set_torch_threads

KINDS = 32  # different inputs
SOAKING = 50  # clients
TICK = os.sysconf("SC_CLK_TCK")
RECIPES = Path(__file__).parents[1] / "recipes"
RUNS = {
    "translation": [str(RECIPES / "demo.toml"), "model.preset=tiny", "training.steps=250"],
    "captioning": [str(RECIPES / "scenes_caption_transformer.toml"), "data.scenes=1000", "training.steps=120"],
    "classification": [str(RECIPES / "reviews_en.toml"), "training.epochs=none", "training.steps=100"],
    "language": ["language", "model=gpt", "model.preset=small", "data.vocab_size=1000", "data.context=64"],
}
MORE = {"language": ["data.eval_tokens=2000", "training.steps=150"]}
OPTIONS = {"language": {"tokens": 40}}  # asked of runs of a task


def trained(folder):
    """The four runs, trained where they are not there yet."""
    for name, words in RUNS.items():
        if not (folder / name / "model.safetensors").is_file():
            steps = next(word for word in [*words, *MORE.get(name, ())] if word.startswith("training.steps="))
            every = steps.replace("training.steps", "training.evaluation.every")
            command = [sys.executable, "-m", "regard", "train", *words, *MORE.get(name, ()), every]
            subprocess.run([*command, "--out", str(folder / name)], check=True, stdout=subprocess.DEVNULL)
    return [folder / name for name in RUNS]


def started(runs, workers):
    """The server's process and its address."""
    command = [sys.executable, "-m", "regard", "serve", *map(str, runs), "--port", "0", "--workers", str(workers)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    host, port = re.search(r"http://([\d.]+):(\d+)/", server.stdout.readline()).groups()
    return server, (host, int(port))


def processes(pid):
    """A process and those that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return [pid, *map(int, children)]


def memory(pid):
    """Resident megabytes of a server, all its processes together."""
    sizes = [Path(f"/proc/{process_id}/status").read_text(encoding="utf-8") for process_id in processes(pid)]
    return sum(int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) for text in sizes) / 1024


def used(pid):
    """Seconds of a processor that a server has taken."""
    facts = [Path(f"/proc/{fields}/stat").read_text(encoding="utf-8").rpartition(")")[2] for fields in processes(pid)]
    return sum(sum(map(int, fields.split()[11:13])) for fields in facts) / TICK


def inputs_of(run):
    """Examples and parts of them, so that lengths differ; files as they are."""
    inputs = list(run.task.examples)
    if not run.task.input_suffixes:
        words = [text.split() for text in inputs if text]
        inputs += [" ".join(words_[:length]) for words_ in words for length in range(2, len(words_))]
    return list(dict.fromkeys(inputs))[:KINDS]


class Subject:
    """A run that is asked: its requests with the answers that it gives alone, and what it does on a corpus."""

    def __init__(self, folder, address, *, seconds):
        run, self.single, self.rows = regard.load(folder), 0.0, []
        set_torch_threads([run.model], processes=1)
        client = Client(f"http://{address[0]}:{address[1]}", Path(folder).resolve().name)
        self.options = OPTIONS.get(run.recipe.task.name, {})
        self.title = f"{client.name}: {client.about['model']} for {client.about['task']}"
        self.asked, texts = [], []
        for text in inputs_of(run):
            try:
                answers = [answer.text for answer in run.predict([text], **self.options)[0]]
            except regard.RegardError:
                continue  # a part of an example may be no input
            body = json.dumps(client._predict_body([text], self.options)).encode()
            self.asked.append(Asked(request(address, client.verb, body), answers))
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
    """The table of one run."""
    subject.rows = [
        f"### {subject.title}\n",
        *TITLES,
        f"| corpus, no server | {subject.rate:.1f} | | 1 | | | {subject.cost:.2f} | | | | | |",
    ]
    for count in clients:
        measure_one(subject, server, address, count=count, seconds=seconds, label=str(count))


def measure_one(subject, server, address, *, count, seconds, label):
    """A row more: so many clients."""
    before, client_cpu = used(server.pid), time.process_time()
    started_at = time.monotonic()
    heard = load(address, subject.asked, clients=count, seconds=seconds)
    speed = len(heard.seconds) / (time.monotonic() - started_at)
    cpu_seconds = used(server.pid) - before, time.process_time() - client_cpu
    cost = " | ".join(f"{1000 * seconds_ / max(1, len(heard.seconds)):.3f}" for seconds_ in cpu_seconds)
    subject.single = subject.single or speed
    wrong_text = ", ".join(f"{count_} {what}" for what, count_ in heard.wrong.items()) or 0
    times = f"{1000 * heard.worst(0.5):.0f} | {1000 * heard.worst(0.99):.0f}"
    subject.rows.append(
        f"| {label} | {speed:.1f} | {speed / subject.single:.2f} | {speed / subject.rate:.2f} | {times} | {cost} "
        f"| {heard.refused} | {heard.lost} | {wrong_text} | {memory(server.pid):.0f} |"
    )
    print(subject.rows[-1], flush=True)
    if heard.example:
        print("wrong:", heard.example)


def measure_processes(subjects, runs, *, workers, count, seconds):
    """A row more for each run: the most clients, by a server of several processes."""
    server, address = started(runs, workers)
    try:
        for subject in subjects:
            print(f"\n{subject.title}")
            load(address, subject.asked, clients=count, seconds=max(2, seconds / 5))  # each process has begun by then
            label = f"{count}, {workers} processes"
            measure_one(subject, server, address, count=count, seconds=seconds, label=label)
    finally:
        server.terminate()
        server.wait(60)


def soak(subjects, server, address, *, minutes):
    """All runs at once for minutes: the memory over time."""
    heard = []
    each = max(1, SOAKING // len(subjects))
    threads = [
        threading.Thread(
            target=lambda asked=subject.asked: heard.append(load(address, asked, clients=each, seconds=60 * minutes))
        )
        for subject in subjects
    ]
    begun, rows = time.monotonic(), []
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        rows.append((time.monotonic() - begun, memory(server.pid)))
        time.sleep(max(0.5, 3 * minutes))
    for thread in threads:
        thread.join()
    kept = [row for place, row in enumerate(rows) if place % max(1, len(rows) // 10) == 0 or place == len(rows) - 1]
    counts = [sum(len(one.seconds) for one in heard), sum(one.refused for one in heard), sum(one.lost for one in heard)]
    wrong = sum(sum(one.wrong.values()) for one in heard)
    said = "{:,} answered, {:,} refused, {:,} lost, {:,} wrong".format(*counts, wrong)
    times = " | ".join(f"{seconds / 60:.1f}" for seconds, _ in kept)
    sizes = " | ".join(f"{size:.0f}" for _, size in kept)
    line = "|" + "---|" * (len(kept) + 1)
    table = f"| minute | {times} |\n{line}\n| MB | {sizes} |"
    text = f"{each * len(subjects)} clients for {minutes:g} minutes: {said}.\n\n{table}"
    print(text)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", metavar="RUN", type=Path, help="run folders; without, four are trained")
    parser.add_argument("--folder", type=Path, help="where they are trained, or found; else in one that is removed")
    parser.add_argument("--clients", default="1,10,50,200", help="how many at once, with commas")
    parser.add_argument("--seconds", type=float, default=10, help="for each number of clients, and for the corpus")
    parser.add_argument("--workers", type=int, default=1, help="processes of the server")
    parser.add_argument("--also", type=int, default=0, help="a row more: the most clients, by so many processes")
    parser.add_argument("--minutes", type=float, default=0, help="of a soak at the end")
    parser.add_argument("--page", type=Path, help="write the tables between the markers of this page")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        runs = args.runs or trained(args.folder or Path(temporary))
        server, address = started(runs, args.workers)
        try:
            subjects = [Subject(folder, address, seconds=args.seconds / 2) for folder in runs]
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
