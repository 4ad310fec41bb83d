"""CTranslate2 with the weights of the same regard model, exported by `prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from systems.workload import LENGTH, Rows


class Setting(NamedTuple):
    """Parsed name of a system: CTranslate2 float32 2x1 has two workers of one thread."""

    kind: str
    workers: int
    threads: int

    @classmethod
    def read(cls, system: str) -> Setting:
        kind, counts = system.split()[1:3]
        return cls(kind, *map(int, counts.split("x")))


def translator(folder: Path, setting: Setting) -> Any:
    """Open an exported model."""
    import ctranslate2

    kind, workers, threads = setting
    return ctranslate2.Translator(
        str(folder), device="cpu", compute_type=kind, inter_threads=workers, intra_threads=threads
    )


def named(rows: Rows) -> list[list[str]]:
    """Return the token ids as strings."""
    return [[str(token) for token in row] for row in rows]


def decode(engine: Any, rows: list[list[str]], *, width: int = 1, batch: int, length: int = LENGTH) -> int:
    """Decode all rows, batched by CTranslate2; every output has the same length."""
    options = {"beam_size": width, "min_decoding_length": length, "max_decoding_length": length}
    results = engine.translate_batch(rows, max_batch_size=batch, **options)
    if any(len(result.hypotheses[0]) != length for result in results):
        raise SystemExit("CTranslate2: an output has another length than requested")
    return len(rows)
