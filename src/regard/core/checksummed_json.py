"""JSON in files that carry their own checksum, so that any damage is noticed when they are read.

The checksum is the SHA-256 of the file with 64 zeros where the checksum stands; training/tensor_files.py seals tensors so.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError
from regard.core.files import open_regular, write_bytes

JSONObject = dict[str, Any]
CHECKSUM_PLACEHOLDER = b"0" * 64
MAX_JSON_BYTES = 16 * 2**20  # bytes of a header or a JSON file; ten thousand tensors need a tenth of it


class CorruptFile(CheckpointError):
    """A file whose content is not what was written."""


def write_json(path: Path, table: JSONObject) -> None:
    """A sealed JSON file for people to read; the seal is its last key."""
    text = json.dumps({**table, "sha256": CHECKSUM_PLACEHOLDER.decode()}, indent=2, ensure_ascii=False) + "\n"
    data = text.encode()
    place = data.rindex(CHECKSUM_PLACEHOLDER)
    seal = hashlib.sha256(data).hexdigest().encode()
    write_bytes(path, data[:place] + seal + data[place + len(seal) :])


def read_json(path: Path) -> JSONObject:
    """The table of a sealed JSON file. Edited by hand on purpose: take the sha256 line out."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_JSON_BYTES)
        table: JSONObject = json.loads(data)
        json.dumps(table, ensure_ascii=False).encode()  # half a character cannot be written again
        claimed = table.pop("sha256", None)
        right = claimed is None or claimed == hashlib.sha256(_unsealed(data, claimed)).hexdigest()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; is {path.parent} a run folder?") from None
    except OSError as wrong:
        raise CheckpointError(f"{path}: could not be read ({wrong.strerror})") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise CorruptFile(f"{path}: damaged (not valid JSON); restore it from a copy") from None
    if not right:
        raise CorruptFile(
            f"{path}: its checksum does not match; restore it from a copy, or delete its sha256 line if you changed it"
        )
    return table


def _unsealed(data: bytes, claimed: str) -> bytes:
    before, seal, after = data.rpartition(claimed.encode())
    return before + CHECKSUM_PLACEHOLDER + after if seal else b""
