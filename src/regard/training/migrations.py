"""A run's configuration, brought from the version that wrote it to today's, one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from regard.core.config import Table
from regard.core.errors import CheckpointError

VERSION = 6
LOOK_BACK = ("gpt", "transformer")  # models that may tell distances apart and never look ahead
RECURRENT = ("seq2seq", "bahdanau", "luong")


def _identities(table: Table) -> Table:
    """Version 2 gave runs ids and checksums of their data; those without are used, and it is said."""
    return table


def _scores(table: Table) -> Table:
    """Version 3 calls scores as the literature does: `additive` is w·tanh(Wq + Uk), `concat` is w·tanh(W[q; k]).

    Before, the two names were the other way round. The weights keep their names, so a run computes what it did.
    """
    model = table.get("model")
    score = model.get("score") if isinstance(model, dict) else None
    other = {"additive": "concat", "concat": "additive"}
    if not isinstance(score, str) or score not in other:
        return table
    return {**table, "model": {**table["model"], "score": other[score]}}


def _distances(table: Table) -> Table:
    """Version 4 keeps no vectors for distances ahead where nobody looks ahead, so weights have another shape."""
    model = table.get("model")
    if isinstance(model, dict) and (model.get("name") in LOOK_BACK or "intervals" in model):
        if model.get("position") == "relative" or model.get("intervals"):
            raise CheckpointError(
                f"a {model['name']} with relative positions of an earlier regard holds vectors for the future, which "
                "are never looked at and are no longer kept; train the run anew"
            )
    return table


def _choices(table: Table) -> Table:
    """Version 5 lets the choices of hard attention come in gradually; before, they were all there at once."""
    model = table.get("model")
    if not isinstance(model, dict) or model.get("name") != "captioner":
        return table
    return {**table, "model": {"gradual": 0, **model}}


def _word_vectors(table: Table) -> Table:
    """Version 6 reads the word vectors of recurrent models at unit variance; before, they were as small as in the
    readout that shares them. And a recommender judges by attention over what was thought of other items."""
    model = table.get("model")
    name = model.get("name") if isinstance(model, dict) else None
    if name == "recommender":
        raise CheckpointError("a recommender of an earlier regard judges items in another way; train it anew")
    if name not in RECURRENT:
        return table
    return {**table, "model": {"word_scale": 1.0, **table["model"]}}


# version -> the function that brings a table of that version to the next one
MIGRATIONS: Mapping[int, Callable[[Table], Table]] = MappingProxyType(
    {1: _identities, 2: _scores, 3: _distances, 4: _choices, 5: _word_vectors}
)


def migrate(table: Table, where: Path) -> Table:
    """The table of a run brought to this version, or refused in words."""
    version = table.get("version")
    if not isinstance(version, int) or version < 1:
        raise CheckpointError(f"{where}: version={version!r} is not a version of a run's configuration")
    if version > VERSION:
        raise CheckpointError(
            f"{where}: version {version} was written by a newer regard; this one reads up to {VERSION}: upgrade regard"
        )
    table = {key: value for key, value in table.items() if key != "version"}
    for step in range(version, VERSION):
        if step not in MIGRATIONS:
            raise CheckpointError(f"{where}: version {step} is too old for this regard; train the run anew")
        try:
            table = MIGRATIONS[step](table)
        except CheckpointError as wrong:
            raise CheckpointError(f"{where}: {wrong}") from None
    return table
