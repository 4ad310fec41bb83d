"""The encodings of music by name: a grid of four voices, events, and notes with durations."""

from __future__ import annotations

from typing import Any, Literal

from regard.data.music.duration_encoding import DurationEncoding
from regard.data.music.encoding import Encoding
from regard.data.music.event_encoding import EventEncoding
from regard.data.music.grid_encoding import GridEncoding

EncodingName = Literal["grid", "events", "durations"]


def build_encoding(name: EncodingName, **settings: Any) -> Encoding:
    """Return the encoding of a name; `settings` are those of `Encoding.settings`, by default its own."""
    kinds = {"grid": GridEncoding, "events": EventEncoding, "durations": DurationEncoding}
    encoding: Encoding = kinds[name](**settings)
    return encoding
