"""Where sentence pairs come from: a path, the built-in grammar, a known download, or a Hugging Face dataset."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import ConfigError, did_you_mean
from regard.data import examples, huggingface
from regard.data.builtin import english_korean
from regard.data.examples import SplitFunction
from regard.data.files import download
from regard.data.text import pair_files
from regard.data.text.alignment import Links
from regard.data.text.pair_files import Languages, Pair, Pairs

BUILT_IN = "english_korean"
PAIR_DOWNLOADS = ("multi30k",)  # downloads that are sentence pairs
HELD_OUT_EXAMPLES = 500  # built-in examples for valid and for test each
MAX_SEARCHED_EXAMPLES = (
    3000  # training sentences whose alignment is looked up; making more of them would keep a page waiting
)


class PairSource(NamedTuple):
    """Which sentence pairs: those of a path, which comes first, or of a name."""

    path: Path | None
    name: str
    languages: Languages
    seed: int  # of splits that are not given, and of the built-in data

    @property
    def built_in(self) -> bool:
        """Are they made by the grammar, which knows the true alignment?"""
        return self.path is None and self.name == BUILT_IN


def open_pairs(
    source: PairSource, *, count: int, split_function: SplitFunction = examples.add_missing_splits
) -> dict[str, Pairs]:
    """The pairs of each split; `count` is how many are made for training where they are built in."""
    path, name, languages, seed = source
    if path is not None:
        return _complete(_from_path(path, languages), seed, split_function)
    if name == BUILT_IN:
        return _built_in(languages, count=count, seed=seed)
    if name.startswith(huggingface.PREFIX):
        return _complete(huggingface.read_from_hub(name, languages), seed, split_function)
    if name not in PAIR_DOWNLOADS:
        names = (BUILT_IN, *PAIR_DOWNLOADS)
        raise ConfigError(f"no data {name!r}; files are given as data.path=…; {did_you_mean(name, names)}")
    return _complete(pair_files.read(download.fetch_dataset(name), languages), seed, split_function)


def true_links(source: PairSource, split: str) -> list[Links] | None:
    """The true alignment of each pair of a held-out split, where it is known: of the built-in data."""
    if not source.built_in:
        return None
    return [_links(example, source) for example in built_in_examples(split, HELD_OUT_EXAMPLES, seed=source.seed)]


def true_links_of_pair(source: PairSource, pair: Pair, *, count: int) -> Links | None:
    """The true alignment of a sentence pair of the built-in data, of which `count` are for training, else None."""
    if not source.built_in:
        return None
    english, korean = pair[::-1] if source.languages.source == "ko" else pair
    split = english_korean.split_of(english)
    size = min(count, MAX_SEARCHED_EXAMPLES) if split == "train" else HELD_OUT_EXAMPLES
    example = _by_text(split, size, seed=source.seed).get(english)
    return _links(example, source) if example is not None and example.target == korean else None


@lru_cache(maxsize=3)  # making a split takes seconds, and a served page asks again and again
def _by_text(split: str, size: int, *, seed: int) -> dict[str, english_korean.Example]:
    return {example.source: example for example in english_korean.generate(split, size, seed=seed)}


def _links(example: english_korean.Example, origin: PairSource) -> Links:
    turned = origin.languages.source == "ko"
    return frozenset((t, s) if turned else (s, t) for s, t in example.alignment)


def _complete(splits: dict[str, Pairs], seed: int, splitting: SplitFunction) -> dict[str, Pairs]:
    found: dict[str, Pairs] = splitting(splits, seed, text_of=lambda pair: pair[0])
    return found


def _from_path(path: Path, languages: Languages) -> dict[str, Pairs]:
    return huggingface.read_saved(path, languages) if huggingface.is_saved(path) else pair_files.read(path, languages)


def _built_in(languages: Languages, *, count: int, seed: int) -> dict[str, Pairs]:
    if {languages.source, languages.target} != {"en", "ko"}:
        wanted = f"source={languages.source!r} target={languages.target!r}"
        raise ConfigError(f"{wanted}: the built-in data has en and ko; give data.path for other languages")
    sizes = {"train": count, "valid": HELD_OUT_EXAMPLES, "test": HELD_OUT_EXAMPLES}
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
