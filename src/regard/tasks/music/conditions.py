"""What a piece can be asked to be: composer, key, mode, each a class with a token of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.core.protocols import Padded
from regard.data import batching
from regard.data.music.key import MODES, TONICS, mode_of

Condition = Literal["composer", "key", "mode"]
FIRST_CLASS_ID = SpecialTokens().first_regular_id


@dataclass(frozen=True)
class ConditionClasses:
    """Names as `composer:Bach`; the n-th has the token FIRST + n."""

    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """Class tokens, marks included; one class is counted even where there is none."""
        return FIRST_CLASS_ID + max(1, len(self.names))

    def encode(self, names: Sequence[str]) -> list[int]:
        """Names -> their tokens; no names are one padding token, which says nothing."""
        return [FIRST_CLASS_ID + self.names.index(name) for name in names] or [SpecialTokens.pad]

    def encode_request(self, requested: Sequence[str]) -> Padded:
        """A user's words ('Bach', 'minor', 'G minor') -> one row of class tokens."""
        full = {name.partition(":")[2].lower(): name for name in self.names}
        for word in requested:
            if word.lower() not in full:
                options = [name.partition(":")[2] for name in self.names]
                hint = (
                    did_you_mean(word, options)
                    if options
                    else "it was trained without data.conditions, so it knows none"
                )
                raise DataError(f"the model does not know the class {word!r}; {hint}")
        _check_together([full[word.lower()] for word in requested])
        return batching.pad([self.encode([full[word.lower()] for word in requested])])


def _check_together(names: Sequence[str]) -> None:
    """No two of some classes, as `mode:minor`, may say the same thing differently."""
    said: dict[str, str] = {}
    for name in names:
        kind, _, value = name.partition(":")
        told = {kind: value} | ({"mode": mode_of(value)} if kind == "key" else {})
        for what, one in told.items():
            other = said.setdefault(what, one)
            if other != one:
                raise ConfigError(f"like: a piece is of one {what}, not both {other} and {one}; ask for one of them")


def build_classes(conditions: Sequence[Condition], composers: Iterable[str]) -> ConditionClasses:
    """The classes of some conditions; composers are those of the training data."""
    values = {
        "composer": sorted(set(filter(None, composers))),
        "key": [f"{tonic} {mode}" for mode in MODES for tonic in TONICS],
        "mode": list(MODES),
    }
    return ConditionClasses(tuple(f"{name}:{value}" for name in conditions for value in values[name]))
