"""Where sentence pairs come from: a path, the built-in grammar, a known download, or a Hugging Face dataset."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path

from regard.core.errors import ConfigError, nearest
from regard.data import download, huggingface, splits, text
from regard.data.alignment import Links
from regard.data.builtin import english_korean
from regard.data.text import Languages, Pair, Pairs

BUILT_IN = "english_korean"
TRANSLATIONS = ("multi30k",)  # downloads that are sentence pairs
HELD_OUT = 500  # built-in examples for valid and for test each


def open_pairs(path: Path | None, name: str, *, languages: Languages, count: int, seed: int) -> dict[str, Pairs]:
    """A path (which comes first) or a name -> the pairs of each split; `count` is for the built-in training data."""
    if path is not None:
        return splits.complete(_from_path(path, languages), seed)
    if name == BUILT_IN:
        return _built_in(languages, count=count, seed=seed)
    if name.startswith(huggingface.PREFIX):
        return splits.complete(huggingface.read_named(name, languages), seed)
    if name not in TRANSLATIONS:
        known = (BUILT_IN, *TRANSLATIONS)
        raise ConfigError(f"no data {name!r}; {nearest(name, known)}; files are given as data.path=…")
    return splits.complete(text.read(download.get(name), languages), seed)


def true_links(path: Path | None, name: str, *, languages: Languages, split: str, seed: int) -> list[Links] | None:
    """The true alignment of each pair of a held-out split, where it is known: of the built-in data."""
    if path is not None or name != BUILT_IN:
        return None
    found = (example.alignment for example in built_in_examples(split, HELD_OUT, seed=seed))
    turned = languages.source == "ko"
    return [frozenset((t, s) if turned else (s, t) for s, t in alignment) for alignment in found]


def _from_path(path: Path, languages: Languages) -> dict[str, Pairs]:
    return huggingface.read_saved(path, languages) if huggingface.is_saved(path) else text.read(path, languages)


def _built_in(languages: Languages, *, count: int, seed: int) -> dict[str, Pairs]:
    if {languages.source, languages.target} != {"en", "ko"}:
        wanted = f"source={languages.source!r} target={languages.target!r}"
        raise ConfigError(f"{wanted}: the built-in data has en and ko; give data.path for other languages")
    sizes = {"train": count, "valid": HELD_OUT, "test": HELD_OUT}
    turned = languages.source == "ko"
    return {
        split: Pairs(
            f"built-in {BUILT_IN} {split}",
            partial(_generated, split, size, seed=seed, turned=turned),
            key=f"{BUILT_IN} {split} {size} {seed} {turned}",
        )
        for split, size in sizes.items()
    }


def _generated(split: str, size: int, *, seed: int, turned: bool) -> Iterator[Pair]:
    for example in built_in_examples(split, size, seed=seed):
        yield (example.target, example.source) if turned else (example.source, example.target)


@lru_cache(maxsize=4)  # the training data is gone through several times: for the vocabulary, then for the tokens
def built_in_examples(split: str, size: int, *, seed: int) -> list[english_korean.Example]:
    """The built-in examples of a split, with their true alignment."""
    return english_korean.generate(split, size, seed=seed)
