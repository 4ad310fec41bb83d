"""Facts of a run that reads images: the shape of its images, accepted files, and its example image."""

from __future__ import annotations

import base64
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError
from regard.data.images.resize import ImageShape
from regard.tasks._shared.image_inputs import EXAMPLE

SUFFIXES = [".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif"]  # that every browser reads


def image_facts(folder: Path, shape: ImageShape) -> dict[str, Any]:
    """Return the facts; a run without an example image is refused, because a page starts with one."""
    path = folder / EXAMPLE
    if not path.exists():
        raise ConfigError(f"{path}: no such file, and a page starts with an example image; train the run again")
    example = base64.b64encode(path.read_bytes()).decode("ascii")
    return {"shape": asdict(shape), "opens": SUFFIXES, "example": {"name": path.name, "file": example}}
