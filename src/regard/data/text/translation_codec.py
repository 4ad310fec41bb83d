"""Text codec for translation without torch: texts -> source rows, hypotheses -> translations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError, DataError
from regard.core.prediction import Prediction
from regard.core.protocols import Hypothesis
from regard.core.protocols.text_codec import TokenRows
from regard.data.text import tokenizer as text_tokenizer
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.unknown_words import find_unknown_words

VERBS = ("translate",)
MAX_LENGTH_RATIO, MAX_LENGTH_MARGIN = 2, 10  # limit of a translation: ratio · source tokens + margin
EMPTY_PREDICTION = Prediction("", score=0.0, ranking_score=0.0)  # the translation of a blank text


def tokenizer_files(*, joint: bool) -> list[str]:
    """Return the tokenizer files of a run: one for both languages, or one for each."""
    return ["tokenizer.json"] if joint else ["tokenizer.source.json", "tokenizer.target.json"]


def load_tokenizers(folder: Path, *, joint: bool) -> tuple[Tokenizer, Tokenizer]:
    """Load the source and target tokenizers of a run; the same object twice if they share a vocabulary."""
    tokenizers = [text_tokenizer.load(folder / name) for name in tokenizer_files(joint=joint)]
    return tokenizers[0], tokenizers[-1]


def encode(texts: Sequence[str], tokenizer: Tokenizer, *, eos_id: int, max_length: int) -> TokenRows:
    """Texts -> source rows `w1 … wn EOS`; a text over `max_length` is an error."""
    rows = [[*row, eos_id] for row in tokenizer.encode(texts)]
    for text, row in zip(texts, rows, strict=True):
        if len(row) > max_length:
            short = text if len(text) <= 40 else f"{text[:40]}…"
            limit = f"the model was trained for at most {max_length}"
            raise DataError(f"{short!r} has {len(row)} tokens including EOS; {limit}: split the text")
    return rows


@dataclass(frozen=True)
class TranslationCodec:
    """Tokenizers of a run, and the maximum length of its model."""

    source: Tokenizer
    target: Tokenizer
    max_length: int
    special_tokens: SpecialTokens = field(default_factory=SpecialTokens)

    def search_settings(self, options: Mapping[str, Any], decoding: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the search settings; None if the task computes the request: a wider search, a prefix,
        alignments, a memory."""
        if options.get("alignments") or options.get("prefix") or options.get("memory_weight"):
            return None
        count = options["n"]
        if count == 1:
            return decoding
        return {**decoding, "nbest": count} if decoding.get("beam_width", 0) >= count else None

    def encode_texts(self, texts: Sequence[str]) -> TokenRows:
        """Texts -> source rows; the row of a blank text is empty."""
        rows = encode(
            [text for text in texts if text.strip()],
            self.source,
            eos_id=self.special_tokens.eos,
            max_length=self.max_length,
        )
        rows_iterator = iter(rows)
        return [next(rows_iterator) if text.strip() else [] for text in texts]

    def unknown_tokens(self, text: str, row: Sequence[int]) -> tuple[str, ...]:
        """Text and its source row -> the words that the training data did not contain."""
        return find_unknown_words(text, self.source, row)

    def max_new_tokens(self, row: Sequence[int]) -> int:
        """Return the maximum number of tokens of a translation."""
        return min(MAX_LENGTH_RATIO * len(row) + MAX_LENGTH_MARGIN, self.max_length - 1)

    def decode_hypotheses(self, hypothesis_rows: Sequence[Sequence[Hypothesis]]) -> list[list[Prediction]]:
        """Hypotheses -> translations, decoded in one batch; a row without hypotheses was blank."""
        flat = [hypothesis for hypotheses in hypothesis_rows for hypothesis in hypotheses]
        texts = self.target.decode([hypothesis.tokens for hypothesis in flat])
        predictions = (Prediction(text, score, rank) for text, (_, score, rank) in zip(texts, flat, strict=True))
        return [[next(predictions) for _ in hypotheses] or [EMPTY_PREDICTION] for hypotheses in hypothesis_rows]


def load(data: Mapping[str, Any], folder: Path) -> TranslationCodec:
    """[data] section of a recipe and the run folder -> the codec; a run with a memory or placeholders has none."""
    for name in ("similar_pairs", "memory_weight", "placeholders"):
        if data.get(name):
            raise ConfigError(f"data.{name}: the texts of this run are encoded and decoded by the task")
    return TranslationCodec(*load_tokenizers(folder, joint=data["joint"]), data["max_length"])
