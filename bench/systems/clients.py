"""Share of the corpus rate that a server reaches with 200 clients: one process, small models, `regard serve`."""

from __future__ import annotations

from pathlib import Path

import serve
from serve_clients import load

CLIENTS = 200


def rate(name: str, system: str, *, seconds: float, folder: Path) -> float:
    """Return the inputs per second of 200 clients, or of the same engine on a corpus without a server."""
    run = serve.train_run(folder / "served", name)
    server, address = serve.start_server([run], workers=1)
    try:
        subject = serve.ServedRun(run, address, seconds=seconds)
        if system == "own corpus":
            return float(subject.rate)
        load(address, subject.expected, clients=CLIENTS, seconds=seconds / 2)  # warm
        result = load(address, subject.expected, clients=CLIENTS, seconds=2 * seconds)
        if result.lost or result.wrong:
            raise SystemExit(f"{name}: {result.lost} lost and {sum(result.wrong.values())} wrong responses")
        return len(result.seconds) / (2 * seconds)
    finally:
        server.terminate()
        server.wait(60)
