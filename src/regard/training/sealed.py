"""Tensors and JSON in files that carry their own checksum, so that any damage is noticed when they are read.

The checksum is the SHA-256 of the file with 64 zeros where the checksum stands. Nothing beside the file is needed to
check it, so replacing it is one atomic move.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from regard.core.errors import CheckpointError
from regard.core.files import replacing, write_bytes

Facts = dict[str, Any]
_ZEROS = b"0" * 64
_KEY = "regard"  # one key only: with several, safetensors writes them in no fixed order
_LONGEST_HEADER = 100_000_000


def write_tensors(path: Path, tensors: dict[str, Tensor], facts: Facts) -> None:
    """A sealed safetensors file with the tensors, and the facts as JSON in its header."""
    note = json.dumps({"sha256": _ZEROS.decode(), **facts})
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as part:
        part.touch()
        mode = part.stat().st_mode  # as the user's umask has it; safetensors would let nobody else read
        try:
            safetensors.torch.save_file(whole, part, metadata={_KEY: note})
        except SafetensorError as wrong:
            raise OSError(str(wrong)) from wrong
        part.chmod(mode)
        with part.open("r+b") as file:
            place = file.read(_header_length(file.read(8)) + 8).index(_ZEROS) + 8
            seal = _digest(part, place).encode()
            file.seek(place)
            file.write(seal)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Facts]:
    """The tensors and facts of a sealed file; a damaged or foreign one is named, never loaded."""
    facts = read_facts(path)
    try:
        return safetensors.torch.load_file(path), facts
    except (SafetensorError, OSError, ValueError, KeyError) as wrong:
        raise CheckpointError(f"{path}: {_DAMAGED} ({wrong})") from None


_DAMAGED = "damaged or not written by regard; restore it from a copy, or delete it to go on without it"


def read_facts(path: Path) -> Facts:
    """The facts of a sealed tensor file, after its checksum was found right."""
    try:
        with path.open("rb") as file:
            header = file.read(_header_length(file.read(8)))
        note = json.loads(header)["__metadata__"][_KEY]
        facts: Facts = json.loads(note)
        claimed = facts.pop("sha256")
        right = claimed == _digest(path, header.index(claimed.encode()) + 8)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    except OSError as wrong:
        raise CheckpointError(f"{path}: could not be read ({wrong.strerror})") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        raise CheckpointError(f"{path}: {_DAMAGED}") from None
    if not right:
        raise CheckpointError(f"{path}: {_DAMAGED} (its checksum does not match)")
    return facts


def _header_length(first: bytes) -> int:
    length = int.from_bytes(first, "little")
    if len(first) != 8 or length > _LONGEST_HEADER:
        raise ValueError("no safetensors header")
    return length


def _digest(path: Path, place: int) -> str:
    """SHA-256 of the file with zeros in place of the 64 characters at `place`."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        sha.update(file.read(place))
        sha.update(_ZEROS)
        file.seek(place + len(_ZEROS))
        while block := file.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def write_json(path: Path, table: Facts) -> None:
    """A sealed JSON file for people to read; the seal is its last key."""
    text = json.dumps({**table, "sha256": _ZEROS.decode()}, indent=2, ensure_ascii=False) + "\n"
    data = text.encode()
    place = data.rindex(_ZEROS)
    seal = hashlib.sha256(data).hexdigest().encode()
    write_bytes(path, data[:place] + seal + data[place + len(seal) :])


def read_json(path: Path) -> Facts:
    """The table of a sealed JSON file. Edited by hand on purpose: take the sha256 line out."""
    try:
        data = path.read_bytes()
        table: Facts = json.loads(data)
        claimed = table.pop("sha256", None)
        right = claimed is None or claimed == hashlib.sha256(_unsealed(data, claimed)).hexdigest()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; is {path.parent} a run folder?") from None
    except OSError as wrong:
        raise CheckpointError(f"{path}: could not be read ({wrong.strerror})") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise CheckpointError(f"{path}: damaged (not valid JSON); restore it from a copy") from None
    if not right:
        raise CheckpointError(
            f"{path}: its checksum does not match; restore it from a copy, or delete its sha256 line if you changed it"
        )
    return table


def _unsealed(data: bytes, claimed: str) -> bytes:
    before, seal, after = data.rpartition(claimed.encode())
    return before + _ZEROS + after if seal else b""
