"""Computed inspections in memory, bounded by their bytes. One cache is shared by all runs of a server."""

from __future__ import annotations

import ctypes
import dataclasses
import platform
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.inspection.json_format import Inspection

MAX_CACHED_BYTES = 256_000_000  # bytes of all inspections in memory
BYTES_PER_OBJECT = 64  # of a value that is not an array


class InspectionCache:
    """Inspections by id; the least recently used ones are removed. An inspection over the limit is not stored."""

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes, self.size_bytes = max_bytes, 0
        self._inspections: OrderedDict[str, tuple[Inspection, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._inspections)

    def get(self, inspection_id: str) -> Inspection | None:
        """Return an inspection, or None if it is not stored."""
        with self._lock:
            if inspection_id not in self._inspections:
                return None
            self._inspections.move_to_end(inspection_id)
            return self._inspections[inspection_id][0]

    def put(self, inspection_id: str, inspection: Inspection) -> None:
        """Store an inspection, and remove others until all fit."""
        size = size_of(inspection)
        with self._lock:
            self._remove(inspection_id)
            while self._inspections and self.size_bytes + size > self._max_bytes:
                self._remove(next(iter(self._inspections)))
            if size <= self._max_bytes:
                self._inspections[inspection_id] = inspection, size
                self.size_bytes += size
        return_freed_memory()

    def _remove(self, inspection_id: str) -> None:
        _, size = self._inspections.pop(inspection_id, (None, 0))
        self.size_bytes -= size


def size_of(value: Any) -> int:
    """Return the approximate bytes of a value with everything in it; an array that occurs twice counts once."""
    return _count(value, set())


def _count(part: Any, counted: set[int]) -> int:
    if isinstance(part, Mapping):
        return sum(_count(key, counted) + _count(entry, counted) for key, entry in part.items())
    if isinstance(part, list | tuple):
        return sum(_count(entry, counted) for entry in part)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        return sum(_count(getattr(part, field.name), counted) for field in dataclasses.fields(part))
    if isinstance(part, np.ndarray):
        while isinstance(part.base, np.ndarray):  # a view keeps the complete array in memory
            part = part.base
        size = 0 if id(part) in counted else part.nbytes
        counted.add(id(part))
        return size + BYTES_PER_OBJECT
    return BYTES_PER_OBJECT + (len(part) if isinstance(part, str | bytes) else 0)


def return_freed_memory() -> None:
    """Return freed memory to the system. By default glibc retains what the threads of inspections have freed."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
