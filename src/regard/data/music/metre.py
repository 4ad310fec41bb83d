"""How fast a piece goes and how it is counted: tempo, metres, and where the bars begin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MIN_TEMPO, MAX_TEMPO = 5.0, 1000.0  # quarters a minute that are believed
MAX_BEATS, BEAT_UNITS = 64, (1, 2, 4, 8, 16, 32)  # beats of a bar, and notes that are a beat, that are believed
ATOL_QUARTERS = 1e-4  # quarters that are nothing


class Metre(NamedTuple):
    """How a piece is counted from a place on."""

    start: float = 0.0  # quarters
    beats: int = 4  # of a bar
    unit: int = 4  # which note is a beat

    @property
    def bar_quarters(self) -> float:
        """Quarters of a bar."""
        return 4 * self.beats / self.unit


class Timing(NamedTuple):
    """How fast a piece goes and how it is counted."""

    tempo: float | None = None  # quarters a minute, of the beginning; none: nobody says it
    metres: tuple[Metre, ...] = (Metre(),)  # the first at 0, in order

    @property
    def upbeat(self) -> float:
        """Quarters before the first whole bar: a first metre of one bar alone, shorter than those that follow."""
        first, *others = self.metres
        alone = (
            bool(others)
            and abs(others[0].start - first.bar_quarters) < ATOL_QUARTERS
            and first.bar_quarters < others[0].bar_quarters
        )
        return first.bar_quarters if alone else 0.0

    def truncate(self, quarters: float) -> Timing:
        """The pace without the metres that begin later; that of the whole bars behind an upbeat stays."""
        kept = 2 if self.upbeat else 1
        later = (metre for metre in self.metres[kept:] if metre.start < quarters)
        return self._replace(metres=(*self.metres[:kept], *later))

    def bar_starts(self, quarters: float) -> list[float]:
        """Where the bars of a piece of so many quarters begin; an upbeat is one of them."""
        ends = [metre.start for metre in self.metres[1:]]
        found: list[float] = []
        for metre, end in zip(self.metres, [*ends, quarters], strict=True):
            count = -(-(min(end, quarters) - metre.start - ATOL_QUARTERS) // metre.bar_quarters)
            found += [metre.start + number * metre.bar_quarters for number in range(int(count))]
        return found


def validate_timing(tempo: float | None, metres: Iterable[Metre]) -> Timing:
    """What a file says of its tempo and its metres -> what can be believed of it."""
    kept = [Metre()]
    for metre in sorted(metres, key=lambda metre: metre.start):
        if 1 <= metre.beats <= MAX_BEATS and metre.unit in BEAT_UNITS and metre[1:] != kept[-1][1:]:
            kept[len(kept) - (metre.start <= kept[-1].start) :] = [metre]
    return Timing(tempo if tempo is not None and MIN_TEMPO <= tempo <= MAX_TEMPO else None, tuple(kept))


def infer_metre(quarters: float) -> Metre | None:
    """A bar of so many quarters as a metre; none where no note is its beat."""
    for unit in BEAT_UNITS[2:]:
        beats = quarters * unit / 4
        if beats >= 1 - ATOL_QUARTERS and abs(beats - round(beats)) < ATOL_QUARTERS:
            return Metre(0.0, round(beats), unit)
    return None
