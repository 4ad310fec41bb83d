"""What one can ask of a model of music in one request; what would change nothing is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from regard import decoding as decoders
from regard.core.errors import ConfigError
from regard.decoding import Decoding

DAY = 24 * 3600  # seconds
DRAWN = ("samples", "temperature", "top_k", "top_p", "seed")


@dataclass(frozen=True)
class Options:
    """What one can ask for. A file that is given is continued; without one, a piece is made from nothing."""

    seconds: float | None = None  # at most, of what is new; none: until the piece ends by itself, or its tune does
    exactly: bool = False  # just so many seconds, even in the middle of a phrase
    prompt: Path | None = None  # a MIDI or MusicXML file to continue
    keep: float | None = None  # seconds of the prompt that are used; none: all
    harmonise: Path | None = None  # a file whose tune is kept; the other voices are new
    infill: Path | None = None  # a file of which some voices or bars are made anew
    voices: tuple[str, ...] = ()  # with infill, which are new: soprano, alto, tenor, bass; none: all
    bars: str | None = None  # with infill, which are new: 5-8, or 3,9; the first whole one is 1, an upbeat 0; none: all
    like: tuple[str, ...] = ()  # classes that the run knows: Bach, minor, 'G minor'
    samples: int | None = None  # how many pieces; none, here and below: as the run's decoding says
    temperature: float | None = None  # above 1: more surprising, below: less; 0: the likeliest token every time
    top_k: int | None = None  # only the so many likeliest tokens are drawn; 0: all
    top_p: float | None = None  # only the likeliest tokens that have this share of the probability are drawn
    seed: int | None = None  # another one gives other pieces

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 < self.seconds < DAY:
            raise ConfigError(f"seconds={self.seconds}: ask for more than 0 seconds and less than a day")
        if self.keep is not None and not 0 < self.keep < DAY:
            raise ConfigError(
                f"keep={self.keep}: keep more than 0 seconds of the prompt and less than a day, or leave it out"
            )
        if self.exactly and self.seconds is None:
            raise ConfigError("exactly: say how long the piece is to be, with seconds=…")
        if (self.voices or self.bars) and self.infill is None:
            raise ConfigError("voices and bars say what of a file is made anew; give the file: infill=FILE")
        if self.infill is not None and self.seconds is not None:
            raise ConfigError("infill keeps the length of the file; leave seconds out")
        if self.harmonise is not None and self.exactly:
            raise ConfigError("harmonise is as long as the tune, or at most seconds=…; leave exactly out")
        if self.temperature == 0 and (self.samples or 1) > 1:
            raise ConfigError(f"samples={self.samples}: at temperature=0 all would be the same; ask for one")
        if self.temperature == 0 and not (self.top_k is self.top_p is self.seed is None):
            raise ConfigError("top_k, top_p and seed change nothing at temperature=0; leave them out")

    def search(self, decoding: Decoding | None) -> Decoding:
        """The run's decoder with the settings that are asked for; sampling, where it lacks one of them."""
        own = decoding or decoders.build("sample")
        return own.asked(**{name: getattr(self, name) for name in DRAWN})

    def looking(self, *, file: bool) -> None:
        """Refuse what changes nothing of what is looked at: a file as it is, or a short piece from nothing."""
        used = () if file else ("seconds", *DRAWN)
        idle = [one.name for one in fields(self) if one.name not in used and getattr(self, one.name) != one.default]
        if idle:
            what = "a file is looked at as it is" if file else "without a file a short piece from nothing is looked at"
            raise ConfigError(f"{', '.join(idle)}: {what}; make a piece with generate, then look at its file")
