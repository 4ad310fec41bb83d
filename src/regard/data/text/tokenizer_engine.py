"""The only place that calls the Rust library `tokenizers`: its panics become errors, and untrusted files are checked.

A panic is a BaseException of Python, which no `except Exception` catches. A tokenizer file is a small program: patterns
may take exponential time, and replacements may multiply a text. An untrusted run may therefore use only the components
that regard writes, whose time and memory are bounded by the length of the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tokenizers

from regard.core import trust
from regard.core.errors import CheckpointError, DataError, TrustError

PANIC = "PanicException"  # the name of its class; pyo3 creates one class per extension module
MAX_TOKEN_CHARACTERS = 1_000  # of a token in an untrusted file: a text is at most this often as long as its tokens
MAX_PARTS = 8  # normalizers or pre-tokenizers in a sequence
MAX_PREFIX_CHARACTERS = 4  # of a text that a component adds

# A pre-token never ends in a space unless it is a single space, so no text can match the name of a special token.
# Training time of subwords is quadratic in the length of a word, so long words are split after this many characters.
MAX_WORD_CHARS = 100
_REPEAT = f"{{1,{MAX_WORD_CHARS}}}"
SUBWORD_PATTERN = rf" ?[\p{{L}}\p{{M}}]{_REPEAT}| ?\p{{N}}{_REPEAT}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]{_REPEAT}|\s"
WORD_PATTERN = rf" ?[\p{{L}}\p{{M}}\p{{N}}]{_REPEAT}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]|\s"
CHARACTER_PATTERN = r"[\s\S]"
BYTE_PATTERN = (
    rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}{_REPEAT}| ?\p{{N}}{_REPEAT}| ?[^\s\p{{L}}\p{{N}}]{_REPEAT}"
    rf"|\s{_REPEAT}(?!\S)|\s{_REPEAT}"
)
PATTERNS = (SUBWORD_PATTERN, WORD_PATTERN, CHARACTER_PATTERN, BYTE_PATTERN)

# Components that regard writes, by section: those of trained vocabularies, and those of the imported architectures.
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "normalizer": ("Sequence", "NFC", "Lowercase", "Prepend", "BertNormalizer"),
    "pre_tokenizer": ("Sequence", "Split", "ByteLevel", "BertPreTokenizer", "Metaspace"),
    "decoder": ("Sequence", "Fuse", "Strip", "ByteLevel", "WordPiece", "Metaspace"),
    "model": ("BPE", "Unigram", "WordLevel", "WordPiece"),
}
ADDED_TEXTS = ("prepend", "prefix", "replacement", "content", "continuing_subword_prefix", "end_of_word_suffix")


class TokenizerEngine:
    """A tokenizer of the Rust library; a panic in any of its methods is a DataError."""

    def __init__(self, engine: tokenizers.Tokenizer) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._engine, name)
        return _guarded(value) if callable(value) else value

    def normalize(self, text: str) -> str:
        """Return a text as the normalizer changes it."""
        with panics_as_errors():
            normalizer = self._engine.normalizer
            return text if normalizer is None else str(normalizer.normalize_str(text))


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a Rust panic inside the block into a DataError; other exceptions are unchanged."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"the tokenizer failed ({reason}); use a shorter text, or the tokenizer of another run"
        ) from None


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        with panics_as_errors():
            return method(*args, **options)

    return call


def parse_engine(text: str) -> TokenizerEngine:
    """JSON -> a tokenizer. The library raises bare Exception for any problem with the JSON."""
    with panics_as_errors():
        return TokenizerEngine(tokenizers.Tokenizer.from_str(text))


def read_engine(path: Path) -> TokenizerEngine:
    """Read a tokenizer file. In the context of an untrusted run its components are checked first."""
    try:
        text = path.read_text(encoding="utf-8")
        run = trust.untrusted_run()
        if run is not None:
            _check_components(json.loads(text), path)
        return parse_engine(text)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such tokenizer file; is the run folder complete?") from None
    except TrustError:
        raise
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(f"{path}: not a tokenizer file: {error}") from None


def _check_components(state: Any, path: Path) -> None:
    """Refuse components that regard does not write, and texts that would make a result much longer than its input."""
    for section, names in COMPONENTS.items():
        component = state.get(section)
        if section == "model" or component is not None:
            _check_component(component, section, names, path)
    if state.get("post_processor") is not None:
        _refuse(path, "a post-processor")
    added = state.get("added_tokens") or []
    tokens = [*_token_texts(state["model"]), *(token["content"] for token in added)]
    longest = max((len(token) for token in tokens), default=0)
    if longest > MAX_TOKEN_CHARACTERS:
        _refuse(path, f"a token of {longest:,} characters")


def _check_component(component: Any, section: str, names: tuple[str, ...], path: Path) -> None:
    kind = component.get("type")
    if kind not in names:
        _refuse(path, f"the {section} {str(kind)[:40]!r}")
    for key in ADDED_TEXTS:
        if len(str(component.get(key) or "")) > MAX_PREFIX_CHARACTERS:
            _refuse(path, f"the {section} {kind!r} with a {key} of more than {MAX_PREFIX_CHARACTERS} characters")
    if kind == "Split" and (component.get("pattern") or {}).get("Regex") not in PATTERNS:
        _refuse(path, f"the {section} 'Split' with a pattern of its own")
    if component.get("dropout") is not None:
        _refuse(path, f"the {section} {kind!r} with dropout")
    parts = component.get(f"{section}s", component.get("pretokenizers", [])) if kind == "Sequence" else []
    if len(parts) > MAX_PARTS:
        _refuse(path, f"a sequence of {len(parts)} parts")
    for part in parts:
        _check_component(part, section, tuple(name for name in names if name != "Sequence"), path)


def _token_texts(model: Mapping[str, Any]) -> list[str]:
    vocabulary = model["vocab"]
    return list(vocabulary) if isinstance(vocabulary, dict) else [piece for piece, _ in vocabulary]


def _refuse(path: Path, component: str) -> None:
    raise TrustError(
        f"{path}: contains {component}, which regard does not write; the run was not trained here, or its "
        f"{trust.CONFIG_FILE} has changed since; if you trust it, use --trust, or trust=True in Python"
    )
