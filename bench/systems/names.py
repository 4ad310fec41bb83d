"""Where things lie in the folder that `prepare` fills."""

from __future__ import annotations

from pathlib import Path

ENDING = "ending"  # TINY with outputs that end by themselves
LISTED = "-vmap"
LOADED = "tiny"  # whose start-up is measured


def weights(folder: Path, name: str) -> Path:
    """Where a regard model's weights are."""
    return folder / f"{name}.safetensors"


def exported(folder: Path, name: str, *, among: str = "") -> Path:
    """Where it is as a CTranslate2 model, the one with a shortlist apart."""
    return folder / "ct2" / f"{name}{among}"


def lexicon(folder: Path) -> Path:
    """Where the shortlist's probabilities are."""
    return folder / "lexicon.npz"


def loaded(folder: Path) -> Path:
    """Where the Marian is."""
    return folder / "marian"
