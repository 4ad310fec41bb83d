"""Splits by seed for data that comes without them. Equal source sentences fall into one split, so none is in two."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.data.text import Pair, Pairs

HELD_OUT = 1000  # sentences to hold out for a split, if that is at most a twentieth
SHARE = 20


def complete(found: dict[str, Pairs], seed: int) -> dict[str, Pairs]:
    """Splits as found -> the same with a valid split (and a test split, if neither was there) cut off train."""
    if "train" not in found:
        raise DataError(f"there is no training split; found {', '.join(sorted(found)) or 'nothing'}")
    wanted = [name for name in ("valid", "test") if name not in found]
    if not wanted or wanted == ["test"]:
        return found
    keys = _keys(found["train"], seed)
    different = np.unique(keys)
    size = min(HELD_OUT, len(different) // SHARE) or 1
    if len(different) <= size * len(wanted):
        raise DataError(f"{found['train'].where}: {len(different)} different sentences are too few to split")
    edges = [0, *(int(different[size * (i + 1)]) for i in range(len(wanted)))]
    result = dict(found)
    for name, low, high in zip(wanted, edges[:-1], edges[1:], strict=True):
        result[name] = _part(found["train"], keys, low=low, high=high)
    result["train"] = _part(found["train"], keys, low=edges[-1], high=2**64)
    return result


def _keys(pairs: Pairs, seed: int) -> NDArray[np.uint64]:
    salt = seed.to_bytes(16, "little", signed=True)
    digests = (blake2b(source.encode(), digest_size=8, salt=salt).digest() for source, _ in pairs)
    return np.fromiter((int.from_bytes(digest, "little") for digest in digests), dtype=np.uint64)


def _part(pairs: Pairs, keys: NDArray[np.uint64], *, low: int, high: int) -> Pairs:
    inside = (keys >= np.uint64(low)) & (keys <= np.uint64(high - 1))

    def read() -> Iterator[Pair]:
        return (pair for pair, chosen in zip(pairs, inside, strict=True) if chosen)

    return Pairs(pairs.where, read, key=f"{pairs.key}{low}:{high}", bytes=pairs.bytes)
