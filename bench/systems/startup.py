"""Start-up: a new process loads the weights of TINY and translates one sentence of token ids with greedy search."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from systems import paths, workload

SENTENCE = [*range(10, 22), workload.END]


def ready(system: str, folder: Path) -> float:
    """Return the seconds from the start of the process to its first translation, with imports and weights."""
    if system == "regard auto":
        return _command(folder)
    {"regard": _regard, "transformers": _marian, "CTranslate2": _ctranslate2}[system.split(maxsplit=1)[0]](
        system, folder
    )
    return workload.since_start()


def _command(folder: Path) -> float:
    """Time a complete `regard translate` process whose request is in the equivalence cache."""
    texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    code = "from regard.cli.main import main; main()"
    command = [sys.executable, "-c", code, "translate", str(paths.run(folder)), texts[0], "decoding=greedy"]
    note(paths.run(folder), ["decoding=greedy"])
    started_at = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started_at


def note(run: Path, words: list[str]) -> None:
    """Record in the equivalence cache that greedy search gives the native results."""
    from regard.engines.ctranslate2 import cache

    decoding = {"name": "greedy", "min_length": 0, "no_repeat_ngram_size": 0, "suppress_tokens": []}
    agreed = cache.EquivalenceCache(cache.cache_path(run)[0])
    agreed.put("bench 1", {"why": "", "options": {"n": 1}, "decoding": decoding})
    agreed.put_command(cache.command_key(run / "config.json", words), "bench 1")


def _regard(system: str, folder: Path) -> None:
    from regard.cli import predict_loop  # noqa: F401  # the imports of `regard translate`
    from systems import regard_system

    regard_system.begin()
    regard_system.decoder(regard_system.load(folder, paths.LOADED).for_decoding())([SENTENCE])


def _marian(system: str, folder: Path) -> None:
    from transformers import MarianMTModel

    from systems import marian

    marian.decode(MarianMTModel.from_pretrained(paths.loaded(folder)).eval(), [SENTENCE], width=1)


def _ctranslate2(system: str, folder: Path) -> None:
    from systems import ct2

    engine = ct2.translator(paths.exported(folder, paths.LOADED), ct2.Setting.read(system))
    ct2.decode(engine, ct2.named([SENTENCE]), batch=1)
