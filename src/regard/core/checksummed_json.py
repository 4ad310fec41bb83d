"""JSON files that contain their own checksum, so that damage is detected on reading.

The checksum is the SHA-256 of the file with 64 zeros in place of the checksum. training/tensor_files.py protects
tensor files in the same way.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError
from regard.core.files import open_regular, write_bytes
from regard.core.strict_json import to_strict_json

JSONObject = dict[str, Any]
CHECKSUM_PLACEHOLDER = b"0" * 64
MAX_JSON_BYTES = 16 * 2**20  # of a header or a JSON file; ten thousand tensors need a tenth of it


class CorruptFile(CheckpointError):
    """A file whose content differs from what was written."""


def write_json(path: Path, table: JSONObject) -> None:
    """Write an indented JSON file whose last key is its checksum."""
    text = to_strict_json({**table, "sha256": CHECKSUM_PLACEHOLDER.decode()}, indent=2) + "\n"
    data = text.encode()
    position = data.rindex(CHECKSUM_PLACEHOLDER)
    checksum = hashlib.sha256(data).hexdigest().encode()
    write_bytes(path, data[:position] + checksum + data[position + len(checksum) :])


def read_json(path: Path) -> JSONObject:
    """Read a JSON file and verify its checksum. A file edited by hand is accepted without its sha256 line."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_JSON_BYTES)
        table: JSONObject = json.loads(data)
        json.dumps(table, ensure_ascii=False).encode()  # fails for unpaired surrogates, which cannot be written again
        claimed = table.pop("sha256", None)
        valid = claimed is None or claimed == hashlib.sha256(_with_placeholder(data, claimed)).hexdigest()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; is {path.parent} a run folder?") from None
    except OSError as error:
        raise CheckpointError(f"{path}: could not be read ({error.strerror})") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise CorruptFile(f"{path}: damaged (not valid JSON); restore it from a copy") from None
    if not valid:
        raise CorruptFile(
            f"{path}: its checksum does not match; restore it from a copy, or delete its sha256 line if you changed it"
        )
    return table


def _with_placeholder(data: bytes, checksum: str) -> bytes:
    before, separator, after = data.rpartition(checksum.encode())
    return before + CHECKSUM_PLACEHOLDER + after if separator else b""
