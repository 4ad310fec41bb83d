"""Requests a second of a server, with 1, 10, 50 and 200 clients: `python bench/serve.py RUN… [--seconds 10]`.

Starts `regard serve` in a process of its own. Every client sends one request after the other and compares each answer
with what the run answers alone; lost and mixed-up answers are counted. Prints requests a second, the median and the
99th percentile of the time of one, how that compares with one client and with the same engine on a corpus, and how
much memory the server holds before and after.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import regard
from regard.serve.client import Client

KINDS = 32  # different inputs


def started(runs):
    """The server's process and its address."""
    command = [sys.executable, "-m", "regard", "serve", *map(str, runs), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    return server, re.search(r"http://\S+?(?=/ )", line).group()


def memory(pid):
    """Resident megabytes of a process."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024


def load(url, verb, bodies, wanted, *, clients, seconds):
    """So many clients for so long -> the seconds of each request, how many were refused, how many were wrong."""
    host, _, port = url.removeprefix("http://").partition(":")
    times, refused, wrong, ends = [], [], [], time.monotonic() + seconds

    def client(number):
        connection = http.client.HTTPConnection(host, int(port), timeout=120)
        while time.monotonic() < ends:
            kind = number % len(bodies)
            number += 1
            begun = time.monotonic()
            connection.request("POST", f"/v1/{verb}", bodies[kind], {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status in (429, 503):
                refused.append(answer.status)
                time.sleep(int(answer.headers["Retry-After"]))
                continue
            times.append(time.monotonic() - begun)
            if answer.status != 200 or [row["text"] for row in json.loads(content)["answers"][0]] != wanted[kind]:
                wrong.append(content[:200])
        connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, len(refused), wrong


def inputs_of(run):
    """Examples and parts of them, so that lengths differ; files as they are."""
    found = list(run.task.examples)
    if not run.task.opens:
        words = [text.split() for text in found if text]
        found += [" ".join(each[:length]) for each in words for length in range(2, len(each))]
    return list(dict.fromkeys(found))[:KINDS]


def measure(url, folder, server, *, clients, seconds, options, size):
    """The table of one run."""
    run = regard.load(folder)
    client = next(Client(url, name) for name in names(url) if name == Path(folder).resolve().name)
    given = []
    for text in inputs_of(run):
        try:
            given.append((text, run.answer([text], **options)[0]))
        except regard.RegardError:
            continue  # a part of an example may be no input
    bodies = [json.dumps(client._asked([text], options)) for text, _ in given]
    wanted = [[answer.text for answer in answers] for _, answers in given]
    corpus = [given[number % len(given)][0] for number in range(size)]
    begun = time.monotonic()
    run.answer(corpus, **options)
    rate = size / (time.monotonic() - begun)
    print(f"\n{client.name} ({client.about['model']} for {client.about['task']}): {rate:.1f} inputs/s as a corpus")
    print("| clients | requests/s | of one client | of the corpus | p50 ms | p99 ms | refused | wrong | MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    single = 0.0
    for count in clients:
        times, refused, wrong = load(url, client.verb, bodies, wanted, clients=count, seconds=seconds)
        speed = len(times) / seconds
        single = single or speed
        cuts = statistics.quantiles(times, n=100) if len(times) > 1 else [times[0]] * 99
        shown = f"{1000 * cuts[49]:.0f} | {1000 * cuts[98]:.0f} | {refused} | {len(wrong)} | {memory(server.pid):.0f}"
        print(f"| {count} | {speed:.1f} | {speed / single:.2f} | {speed / rate:.2f} | {shown} |", flush=True)
        for content in wrong[:1]:
            print(f"wrong: {content!r}")


def names(url):
    host, _, port = url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", "/v1/runs")
    return [each["name"] for each in json.loads(connection.getresponse().read())["runs"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    parser.add_argument("--clients", default="1,10,50,200", help="how many at once, with commas")
    parser.add_argument("--seconds", type=float, default=10, help="for each number of clients; 600 for a soak")
    parser.add_argument("--corpus", type=int, default=512, help="inputs answered at once by the run itself")
    parser.add_argument("--options", default="{}", help="of every request, as JSON")
    given = parser.parse_args()
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")
    server, url = started(given.runs)
    try:
        for folder in given.runs:
            counts = [int(count) for count in given.clients.split(",")]
            options = json.loads(given.options)
            measure(url, folder, server, clients=counts, seconds=given.seconds, options=options, size=given.corpus)
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
