"""Sources of labelled documents and tagged sentences: a path, a built-in grammar, or a Hugging Face dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from regard.core.errors import ConfigError, did_you_mean
from regard.data import examples as example_splits
from regard.data import huggingface
from regard.data.builtin import entities, reviews
from regard.data.builtin.reviews import Language, Review
from regard.data.examples import Examples, SplitFunction, Splits
from regard.data.text import document_files, tagged_files
from regard.data.text.document_files import Document, Layout
from regard.data.text.tag_schemes import Scheme
from regard.data.text.tagged_files import Format, Sentence

T = TypeVar("T")
REVIEWS: dict[str, Language] = {"reviews_en": "en", "reviews_ko": "ko"}
ENTITIES: dict[str, Language] = {"entities_en": "en", "entities_ko": "ko"}
HELD_OUT_EXAMPLES = 500  # built-in examples in each of valid and test
MAX_SEARCHED_EXAMPLES = 3000  # training reviews that are searched for a text; generating more would delay the page


class LabelledSource(NamedTuple):
    """Location of the data: a path, which takes precedence, or a name."""

    path: Path | None
    name: str
    seed: int  # for missing splits and for the built-in data
    examples: int  # number of built-in training examples


def open_documents(
    source: LabelledSource, layout: Layout, *, split_function: SplitFunction = example_splits.add_missing_splits
) -> Splits[Examples[Document]]:
    """Return the documents of each split."""
    if source.path is not None:
        read = huggingface.read_documents if huggingface.is_saved(source.path) else document_files.read
        stored = read(source.path, layout)
    elif source.name.startswith(huggingface.PREFIX):
        stored = huggingface.read_documents(source.name, layout)
    else:
        return _built_in(source, REVIEWS, _documents)
    cached = {split: example_splits.cache_in_memory(part) for split, part in stored.items()}
    splits: Splits[Examples[Document]] = split_function(cached, source.seed, text_of=lambda document: document.text)
    return splits


def open_tagged(
    source: LabelledSource,
    *,
    file_format: Format = "auto",
    scheme: Scheme | None = None,
    split_function: SplitFunction = example_splits.add_missing_splits,
) -> Splits[Examples[Sentence]]:
    """Return the tagged sentences of each split."""
    if source.path is None:
        return _built_in(source, ENTITIES, _sentences)
    stored = tagged_files.read(source.path, file_format=file_format, scheme=scheme)
    cached = {split: example_splits.cache_in_memory(part) for split, part in stored.items()}
    splits: Splits[Examples[Sentence]] = split_function(cached, source.seed, text_of=lambda sentence: sentence.text)
    return splits


def held_out_reviews(source: LabelledSource, split: str) -> list[Review] | None:
    """Return the reviews of a held-out split with their evidence; None unless the data is built in."""
    if source.path is not None or source.name not in REVIEWS:
        return None
    return _reviews(split, HELD_OUT_EXAMPLES, language=REVIEWS[source.name], seed=source.seed)


def find_review(source: LabelledSource, text: str) -> Review | None:
    """Return the built-in review with this text and its evidence, or None if there is none."""
    if source.path is not None or source.name not in REVIEWS:
        return None
    for split, size in (
        ("valid", HELD_OUT_EXAMPLES),
        ("test", HELD_OUT_EXAMPLES),
        ("train", min(source.examples, MAX_SEARCHED_EXAMPLES)),
    ):
        candidates = _reviews(split, size, language=REVIEWS[source.name], seed=source.seed)
        match = next((review for review in candidates if review.text == text), None)
        if match is not None:
            return match
    return None


def _built_in(
    source: LabelledSource, languages: dict[str, Language], generate: Callable[..., Iterator[T]]
) -> Splits[Examples[T]]:
    if source.name not in languages:
        raise ConfigError(
            f"no data {source.name!r}; files are given as data.path=…; {did_you_mean(source.name, languages)}"
        )
    held_out = entities.SPLITS[1:] if languages is ENTITIES else ("valid", "test")
    sizes = {"train": source.examples, **dict.fromkeys(held_out, HELD_OUT_EXAMPLES)}
    return Splits(
        {
            split: Examples(
                f"built-in {source.name} {split}",
                partial(generate, split, size, language=languages[source.name], seed=source.seed),
                key=f"{source.name} {split} {size} {source.seed}",
            )
            for split, size in sizes.items()
        }
    )


@lru_cache(maxsize=6)  # training reads the data several times, and served pages request it repeatedly
def _reviews(split: str, size: int, *, language: Language, seed: int) -> list[Review]:
    return reviews.generate(split, size, language=language, seed=seed)


def _documents(split: str, size: int, *, language: Language, seed: int) -> Iterator[Document]:
    for index, review in enumerate(_reviews(split, size, language=language, seed=seed), start=1):
        yield Document(review.text, (review.label,), f"built-in reviews_{language} {split}:{index}")


@lru_cache(maxsize=4)
def _entity_sentences(split: str, size: int, *, language: Language, seed: int) -> list[Sentence]:
    return entities.generate(split, size, language=language, seed=seed)


def _sentences(split: str, size: int, *, language: Language, seed: int) -> Iterator[Sentence]:
    return iter(_entity_sentences(split, size, language=language, seed=seed))
