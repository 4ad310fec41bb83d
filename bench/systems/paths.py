"""Paths in the folder that `prepare` fills."""

from __future__ import annotations

from pathlib import Path

ENDING = "ending"  # TINY with outputs that end with EOS
LOADED = "tiny"  # the model whose start-up is measured


def weights(folder: Path, name: str) -> Path:
    """Return the path of the weights of a regard model."""
    return folder / f"{name}.safetensors"


def exported(folder: Path, name: str) -> Path:
    """Return the folder of its CTranslate2 export."""
    return folder / "ct2" / name


def run(folder: Path) -> Path:
    """Return the run folder whose texts are translated."""
    return folder / "run"


def loaded(folder: Path) -> Path:
    """Return the folder of the Marian model."""
    return folder / "marian"
