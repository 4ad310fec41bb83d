"""Tempo, metres and bar positions of a piece."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MIN_TEMPO, MAX_TEMPO = 5.0, 1000.0  # plausible tempos, in quarters per minute
MAX_BEATS, BEAT_UNITS = 64, (1, 2, 4, 8, 16, 32)  # plausible beats per bar, and denominators of time signatures
ATOL_QUARTERS = 1e-4  # tolerance of comparisons


class Metre(NamedTuple):
    """Time signature from a point in time on."""

    start: float = 0.0  # quarters
    beats: int = 4  # per bar: the numerator
    unit: int = 4  # note value of a beat: the denominator

    @property
    def bar_quarters(self) -> float:
        """Quarters of a bar."""
        return 4 * self.beats / self.unit


class Timing(NamedTuple):
    """Tempo and metres of a piece."""

    tempo: float | None = None  # quarters per minute at the start; None if the file does not specify it
    metres: tuple[Metre, ...] = (Metre(),)  # in order of time, the first at 0

    @property
    def upbeat(self) -> float:
        """Quarters before the first complete bar: the length of a first bar that is shorter than the following."""
        first, *later = self.metres
        is_upbeat = (
            bool(later)
            and abs(later[0].start - first.bar_quarters) < ATOL_QUARTERS
            and first.bar_quarters < later[0].bar_quarters
        )
        return first.bar_quarters if is_upbeat else 0.0

    def truncate(self, quarters: float) -> Timing:
        """Drop the metres that start later; the metre after an upbeat stays."""
        num_first = 2 if self.upbeat else 1
        later = (metre for metre in self.metres[num_first:] if metre.start < quarters)
        return self._replace(metres=(*self.metres[:num_first], *later))

    def bar_starts(self, quarters: float) -> list[float]:
        """Return the starts of the bars in a piece of this many quarters, including an upbeat."""
        ends = [metre.start for metre in self.metres[1:]]
        starts: list[float] = []
        for metre, end in zip(self.metres, [*ends, quarters], strict=True):
            count = -(-(min(end, quarters) - metre.start - ATOL_QUARTERS) // metre.bar_quarters)
            starts += [metre.start + index * metre.bar_quarters for index in range(int(count))]
        return starts


def validate_timing(tempo: float | None, metres: Iterable[Metre]) -> Timing:
    """Tempo and metres of a file -> timing without implausible values."""
    valid = [Metre()]
    for metre in sorted(metres, key=lambda metre: metre.start):
        if 1 <= metre.beats <= MAX_BEATS and metre.unit in BEAT_UNITS and metre[1:] != valid[-1][1:]:
            valid[len(valid) - (metre.start <= valid[-1].start) :] = [metre]
    return Timing(tempo if tempo is not None and MIN_TEMPO <= tempo <= MAX_TEMPO else None, tuple(valid))


def infer_metre(quarters: float) -> Metre | None:
    """Return the metre of a bar of this many quarters; None if no note value divides it."""
    for unit in BEAT_UNITS[2:]:
        beats = quarters * unit / 4
        if beats >= 1 - ATOL_QUARTERS and abs(beats - round(beats)) < ATOL_QUARTERS:
            return Metre(0.0, round(beats), unit)
    return None
