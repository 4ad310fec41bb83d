"""Byte-level BPE: Radford et al. 2019, section 2.2. Subwords consist of bytes, so no text has an unknown token."""

from __future__ import annotations

import json
from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.core.errors import ConfigError, DataError
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from regard.data.text.tokenizer_engine import BYTE_PATTERN, panics_as_errors, parse_engine

MIN_VOCAB_SIZE = len(SPECIAL_TOKENS) + 256  # the special tokens and every byte


def train(texts: Iterable[str], *, size: int, lowercase: bool = False, minimum: int = 1) -> Tokenizer:
    """Texts -> a tokenizer of at most `size` tokens; each merged pair occurs at least `minimum` times."""
    if size < MIN_VOCAB_SIZE:
        raise ConfigError(
            f"vocab_size={size} is smaller than 256 bytes and {len(SPECIAL_TOKENS)} special tokens; "
            f"set it to at least {MIN_VOCAB_SIZE}"
        )
    if not any(text.strip() for text in texts):
        raise DataError("there is no text to build a vocabulary from")
    engine = tokenizers.Tokenizer(models.BPE())
    lower = [normalizers.Lowercase()] if lowercase else []
    engine.normalizer = normalizers.Sequence([normalizers.NFC(), *lower])
    # Split like Radford et al., but also split words and runs of symbols after MAX_WORD_CHARS characters.
    split = pre_tokenizers.Split(tokenizers.Regex(BYTE_PATTERN), "isolated")
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=minimum,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    with panics_as_errors():
        engine.train_from_iterator(texts, trainer)
    state = json.loads(engine.to_str()) | {"added_tokens": []}  # special tokens are not matched in texts
    return Tokenizer(parse_engine(json.dumps(state)))
