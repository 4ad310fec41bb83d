"""Conditions of a piece: composer, key and mode, each value a class with its own token."""

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
    """Class names such as `composer:Bach`; the n-th has the token FIRST_CLASS_ID + n."""

    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of class tokens, special tokens included; at least one class is counted."""
        return FIRST_CLASS_ID + max(1, len(self.names))

    def encode(self, names: Sequence[str]) -> list[int]:
        """Names -> their tokens; no names -> one padding token."""
        return [FIRST_CLASS_ID + self.names.index(name) for name in names] or [SpecialTokens.pad]

    def encode_known(self, names: Sequence[str]) -> list[int]:
        """Names -> tokens of those that exist: a held-out piece may be by a composer that training never had."""
        return self.encode([name for name in names if name in self.names])

    def encode_request(self, requested: Sequence[str]) -> Padded:
        """Values of a request ('Bach', 'minor', 'G minor') -> one row of class tokens."""
        full_names = {name.partition(":")[2].lower(): name for name in self.names}
        for word in requested:
            if word.lower() not in full_names:
                options = [name.partition(":")[2] for name in self.names]
                hint = did_you_mean(word, options) if options else "it was trained without data.conditions"
                raise DataError(f"the model does not know the class {word!r}; {hint}")
        _check_consistent([full_names[word.lower()] for word in requested])
        return batching.pad([self.encode([full_names[word.lower()] for word in requested])])


def _check_consistent(names: Sequence[str]) -> None:
    """Raise an error if two classes contradict each other, e.g. `mode:minor` and `mode:major`."""
    values: dict[str, str] = {}
    for name in names:
        condition, _, value = name.partition(":")
        implied = {condition: value} | ({"mode": mode_of(value)} if condition == "key" else {})
        for key, new in implied.items():
            previous = values.setdefault(key, new)
            if previous != new:
                raise ConfigError(f"condition: a piece has one {key}, not both {previous} and {new}; give one of them")


def piece_classes(conditions: Sequence[Condition], *, composer: str, key: str) -> list[str]:
    """Return the class names of a piece; conditions whose value is unknown ("") are left out."""
    values = {"composer": composer, "key": key, "mode": mode_of(key) if key else ""}
    return [f"{name}:{values[name]}" for name in conditions if values[name]]


def build_classes(conditions: Sequence[Condition], composers: Iterable[str]) -> ConditionClasses:
    """Return the classes of conditions; `composers` are those of the training data."""
    values = {
        "composer": sorted(set(filter(None, composers))),
        "key": [f"{tonic} {mode}" for mode in MODES for tonic in TONICS],
        "mode": list(MODES),
    }
    return ConditionClasses(tuple(f"{name}:{value}" for name in conditions for value in values[name]))
