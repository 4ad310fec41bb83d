"""Translation without torch: texts to source rows, hypotheses to translations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.core.data_specs import SpecialTokens
from regard.core.errors import DataError
from regard.core.prediction import Prediction
from regard.core.protocols import Hypothesis
from regard.core.protocols.text_codec import TokenRows
from regard.data.text import tokenizer as text_tokenizer
from regard.data.text.tokenizer import Tokenizer

VERBS = ("translate",)
MAX_LENGTH_RATIO, MAX_LENGTH_MARGIN = (
    2,
    10,
)  # a translation has at most so many times the tokens of its source, and so many more
EMPTY_PREDICTION = Prediction("", score=0.0, rank=0.0)  # the translation of a blank text


def tokenizer_files(*, joint: bool) -> list[str]:
    """The files of a run that hold the vocabulary: one for both languages, or one for each."""
    return ["tokenizer.json"] if joint else ["tokenizer.source.json", "tokenizer.target.json"]


def load_tokenizers(folder: Path, *, joint: bool) -> tuple[Tokenizer, Tokenizer]:
    """Those of a run, of the source and of the target; one twice if they share a vocabulary."""
    found = [text_tokenizer.load(folder / name) for name in tokenizer_files(joint=joint)]
    return found[0], found[-1]


def encode(texts: Sequence[str], tokenizer: Tokenizer, *, eos_id: int, max_length: int) -> TokenRows:
    """Texts -> source rows `w1 … wn end`; a text the model cannot hold is an error."""
    rows = [[*row, eos_id] for row in tokenizer.encode(texts)]
    for text, row in zip(texts, rows, strict=True):
        if len(row) > max_length:
            short = text if len(text) <= 40 else f"{text[:40]}…"
            limit = f"the model was trained for at most {max_length}"
            raise DataError(f"{short!r} has {len(row)} tokens with the end mark; {limit}: split the text")
    return rows


@dataclass(frozen=True)
class TranslationCodec:
    """The vocabularies of a run, and the longest sentence that its model holds."""

    source: Tokenizer
    target: Tokenizer
    max_length: int
    special_tokens: SpecialTokens = field(default_factory=SpecialTokens)

    def search_settings(self, options: Mapping[str, Any], decoding: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """More translations than the beam is wide need a second, wider search."""
        count = options["n"]
        if count == 1:
            return decoding
        return {**decoding, "nbest": count} if decoding.get("beam_width", 0) >= count else None

    def encode_texts(self, texts: Sequence[str]) -> TokenRows:
        """Source rows; that of a blank text is empty."""
        rows = encode(
            [text for text in texts if text.strip()],
            self.source,
            eos_id=self.special_tokens.eos,
            max_length=self.max_length,
        )
        coming = iter(rows)
        return [next(coming) if text.strip() else [] for text in texts]

    def max_new_tokens(self, row: Sequence[int]) -> int:
        """The most tokens of a translation."""
        return min(MAX_LENGTH_RATIO * len(row) + MAX_LENGTH_MARGIN, self.max_length - 1)

    def decode_hypotheses(self, hypothesis_rows: Sequence[Sequence[Hypothesis]]) -> list[list[Prediction]]:
        """Translations, all decoded at once; a row without hypotheses was blank."""
        flat = [hypothesis for hypotheses in hypothesis_rows for hypothesis in hypotheses]
        texts = self.target.decode([hypothesis.tokens for hypothesis in flat])
        each = (Prediction(text, score, rank) for text, (_, score, rank) in zip(texts, flat, strict=True))
        return [[next(each) for _ in hypotheses] or [EMPTY_PREDICTION] for hypotheses in hypothesis_rows]


def load(data: Mapping[str, Any], folder: Path) -> TranslationCodec:
    """The [data] section of a recipe and the run folder -> the task."""
    return TranslationCodec(*load_tokenizers(folder, joint=data["joint"]), data["max_length"])
