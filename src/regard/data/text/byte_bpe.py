"""Byte-level BPE: Radford et al. 2019, section 2.2. Subwords are made of bytes, so no text has an unknown token."""

from __future__ import annotations

import json
from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.core.errors import ConfigError, DataError
from regard.data.text.tokenizer import MAX_WORD_CHARS, SPECIAL_TOKENS, Tokenizer

_SOME = f"{{1,{MAX_WORD_CHARS}}}"
SPLIT_PATTERN = (
    rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}{_SOME}| ?\p{{N}}{_SOME}| ?[^\s\p{{L}}\p{{N}}]{_SOME}"
    rf"|\s{_SOME}(?!\S)|\s{_SOME}"
)
MIN_VOCAB_SIZE = len(SPECIAL_TOKENS) + 256  # tokens: the marks and every byte


def train(texts: Iterable[str], *, size: int, lowercase: bool = False, minimum: int = 1) -> Tokenizer:
    """Texts -> a tokenizer of at most `size` tokens, each joined of two that stood together `minimum` times."""
    if size < MIN_VOCAB_SIZE:
        raise ConfigError(
            f"vocabulary={size} is smaller than 256 bytes and {len(SPECIAL_TOKENS)} marks; set it to {MIN_VOCAB_SIZE}"
        )
    if not any(text.strip() for text in texts):
        raise DataError("there is no text to make a vocabulary from")
    engine = tokenizers.Tokenizer(models.BPE())
    lower = [normalizers.Lowercase()] if lowercase else []
    engine.normalizer = normalizers.Sequence([normalizers.NFC(), *lower])
    # Cut as Radford et al. do, but a word or a row of signs of more than LONGEST_WORD letters is several.
    cuts = pre_tokenizers.Split(tokenizers.Regex(SPLIT_PATTERN), "isolated")
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=minimum,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator(texts, trainer)
    state = json.loads(engine.to_str()) | {"added_tokens": []}  # marks are not searched for in texts
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(state)))
