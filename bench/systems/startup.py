"""Start-up: a new process reads the weights of TINY and translates one sentence of token numbers, greedily."""

from __future__ import annotations

from pathlib import Path

from systems import names, work

SENTENCE = [*range(10, 22), work.END]


def ready(system: str, folder: Path) -> float:
    """Seconds from the start of the process to its first translation; imports and weights included."""
    {"regard": _regard, "transformers": _marian, "CTranslate2": _ctranslate2}[system.split(maxsplit=1)[0]](
        system, folder
    )
    return work.since_start()


def _regard(system: str, folder: Path) -> None:
    from regard.cli import answering  # noqa: F401  # what `regard translate` imports
    from systems import ours

    ours.begin()
    ours.decoder(ours.load(folder, names.LOADED).for_decoding())([SENTENCE])


def _marian(system: str, folder: Path) -> None:
    from transformers import MarianMTModel

    from systems import marian

    marian.decode(MarianMTModel.from_pretrained(names.loaded(folder)).eval(), [SENTENCE], width=1)


def _ctranslate2(system: str, folder: Path) -> None:
    from systems import ct2

    engine = ct2.translator(names.exported(folder, names.LOADED), ct2.Setting.read(system))
    ct2.decode(engine, ct2.named([SENTENCE]), batch=1)
