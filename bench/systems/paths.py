"""Where things lie in the folder that `prepare` fills."""

from __future__ import annotations

from pathlib import Path

ENDING = "ending"  # TINY with outputs that end by themselves
LOADED = "tiny"  # whose start-up is measured


def weights(folder: Path, name: str) -> Path:
    """Where a regard model's weights are."""
    return folder / f"{name}.safetensors"


def exported(folder: Path, name: str) -> Path:
    """Where it is as a CTranslate2 model."""
    return folder / "ct2" / name


def run(folder: Path) -> Path:
    """Where a whole run folder is, whose texts are translated."""
    return folder / "run"


def loaded(folder: Path) -> Path:
    """Where the Marian is."""
    return folder / "marian"
