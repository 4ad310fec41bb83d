"""CTranslate2, with the weights of the same regard model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from systems import ours
from systems.work import LENGTH, Rows


def translator(name: str, folder: Path, *, kind: str, workers: int, threads: int) -> Any:
    """A translator of that shape: float32 or int8, so many workers of so many threads."""
    import ctranslate2

    from regard.door.export import export

    if not folder.exists():
        export(ours.model(name), ours.SIZES, folder)
    return ctranslate2.Translator(
        str(folder), device="cpu", compute_type=kind, inter_threads=workers, intra_threads=threads
    )


def named(rows: Rows) -> list[list[str]]:
    """Tokens go by their numbers."""
    return [[str(token) for token in row] for row in rows]


def decode(engine: Any, rows: list[list[str]], *, width: int, batch: int) -> int:
    """All rows at once, batched by CTranslate2 itself; every output has the same length."""
    options = {"beam_size": width, "min_decoding_length": LENGTH, "max_decoding_length": LENGTH}
    found = engine.translate_batch(rows, max_batch_size=batch, **options)
    if any(len(one.hypotheses[0]) != LENGTH for one in found):
        raise SystemExit("CTranslate2: an output has another length than was asked for")
    return len(rows)
