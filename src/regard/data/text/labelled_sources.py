"""Where documents and tagged sentences come from: a path, a grammar of our own, or a Hugging Face dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from regard.core.errors import ConfigError, did_you_mean
from regard.data import examples as example_splits
from regard.data import huggingface, huggingface_documents
from regard.data.builtin import entities, reviews
from regard.data.builtin.reviews import Language, Review
from regard.data.examples import Examples, SplitFunction
from regard.data.text import document_files, tagged_files
from regard.data.text.document_files import Document, Layout
from regard.data.text.tag_schemes import Scheme
from regard.data.text.tagged_files import Format, Sentence

T = TypeVar("T")
REVIEWS: dict[str, Language] = {"reviews_en": "en", "reviews_ko": "ko"}
ENTITIES: dict[str, Language] = {"entities_en": "en", "entities_ko": "ko"}
HELD_OUT_EXAMPLES = 500  # built-in examples for valid and for test each
MAX_SEARCHED_EXAMPLES = 3000  # training reviews among which a text is looked up; making more would keep a page waiting


class LabelledSource(NamedTuple):
    """Which data: that of a path, which comes first, or of a name."""

    path: Path | None
    name: str
    seed: int  # of splits that are not given, and of the built-in data
    examples: int  # built-in examples for training


def open_documents(
    source: LabelledSource, layout: Layout, *, split_function: SplitFunction = example_splits.add_missing_splits
) -> dict[str, Examples[Document]]:
    """The documents of each split."""
    if source.path is not None:
        saved = huggingface.is_saved(source.path)
        found = (
            huggingface_documents.read_documents(source.path, layout)
            if saved
            else document_files.read(source.path, layout)
        )
    elif source.name.startswith(huggingface.PREFIX):
        found = huggingface_documents.read_documents(source.name, layout)
    else:
        return _built_in(source, REVIEWS, _documents)
    kept = {split: example_splits.cache_in_memory(part) for split, part in found.items()}
    splits: dict[str, Examples[Document]] = split_function(kept, source.seed, text_of=lambda document: document.text)
    return splits


def open_tagged(
    source: LabelledSource,
    *,
    file_format: Format = "auto",
    scheme: Scheme | None = None,
    split_function: SplitFunction = example_splits.add_missing_splits,
) -> dict[str, Examples[Sentence]]:
    """The tagged sentences of each split."""
    if source.path is None:
        return _built_in(source, ENTITIES, _sentences)
    found = tagged_files.read(source.path, file_format=file_format, scheme=scheme)
    kept = {split: example_splits.cache_in_memory(part) for split, part in found.items()}
    splits: dict[str, Examples[Sentence]] = split_function(kept, source.seed, text_of=lambda sentence: sentence.text)
    return splits


def held_out_reviews(source: LabelledSource, split: str) -> list[Review] | None:
    """The reviews of a held-out split with what decides them; None where that is not known."""
    if source.path is not None or source.name not in REVIEWS:
        return None
    return _reviews(split, HELD_OUT_EXAMPLES, language=REVIEWS[source.name], seed=source.seed)


def find_review(source: LabelledSource, text: str) -> Review | None:
    """The built-in review with this text and what decides it, None where there is none."""
    if source.path is not None or source.name not in REVIEWS:
        return None
    for split, size in (
        ("valid", HELD_OUT_EXAMPLES),
        ("test", HELD_OUT_EXAMPLES),
        ("train", min(source.examples, MAX_SEARCHED_EXAMPLES)),
    ):
        made = _reviews(split, size, language=REVIEWS[source.name], seed=source.seed)
        found = next((review for review in made if review.text == text), None)
        if found is not None:
            return found
    return None


def _built_in(
    origin: LabelledSource, languages: dict[str, Language], make: Callable[..., Iterator[T]]
) -> dict[str, Examples[T]]:
    if origin.name not in languages:
        raise ConfigError(
            f"no data {origin.name!r}; files are given as data.path=…; {did_you_mean(origin.name, languages)}"
        )
    sizes = {"train": origin.examples, "valid": HELD_OUT_EXAMPLES, "test": HELD_OUT_EXAMPLES}
    return {
        split: Examples(
            f"built-in {origin.name} {split}",
            partial(make, split, size, language=languages[origin.name], seed=origin.seed),
            key=f"{origin.name} {split} {size} {origin.seed}",
        )
        for split, size in sizes.items()
    }


@lru_cache(maxsize=6)  # training data is gone through several times, and a served page asks again and again
def _reviews(split: str, size: int, *, language: Language, seed: int) -> list[Review]:
    return reviews.generate(split, size, language=language, seed=seed)


def _documents(split: str, size: int, *, language: Language, seed: int) -> Iterator[Document]:
    for number, review in enumerate(_reviews(split, size, language=language, seed=seed), start=1):
        yield Document(review.text, (review.label,), f"built-in reviews_{language} {split}:{number}")


@lru_cache(maxsize=4)
def _made_sentences(split: str, size: int, *, language: Language, seed: int) -> list[Sentence]:
    return entities.generate(split, size, language=language, seed=seed)


def _sentences(split: str, size: int, *, language: Language, seed: int) -> Iterator[Sentence]:
    return iter(_made_sentences(split, size, language=language, seed=seed))
