"""Conversion of vocabularies between regard and Hugging Face tokenizers.

In regard the special tokens have the ids 0 to 3 and names that no text can contain, and the mask token is the last id.
Tokens of an imported tokenizer.json therefore get new ids; `source_ids` has the original id of each token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import processors
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.errors import CheckpointError, DataError
from regard.data.text.masking import MASK_TOKEN
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from regard.data.text.tokenizer_engine import TokenizerEngine, parse_engine

MASKED_LOGIT = -1e4  # logit bias of a special token that the imported model lacks: its probability is 0
NATIVE_TOKENS = dict(zip(("pad", "unknown", "start", "end", "mask"), (*SPECIAL_TOKENS, MASK_TOKEN), strict=True))
COMMON_SPELLINGS = {  # names of special tokens in other libraries, most specific first
    "pad": ("[PAD]", "<pad>"),
    "unknown": ("[UNK]", "<unk>"),
    "start": ("[CLS]", "<s>", "<|endoftext|>"),
    "end": ("[SEP]", "</s>", "<|endoftext|>"),
    "mask": ("[MASK]", "<mask>"),
}


@dataclass(frozen=True)
class ImportedVocabulary:
    """A converted tokenizer and the original ids of its tokens."""

    tokenizer: Tokenizer
    source_ids: Tensor  # (n) original id of each token; -1 if there is none
    missing_special_tokens: tuple[int, ...]  # ids of special tokens without a row of their own

    def to_source_ids(self, tokens: Tensor) -> Tensor:
        """Token ids of regard -> original ids."""
        return self.source_ids[tokens]

    def select_rows(self, theirs: Tensor) -> Tensor:
        """An original table with a row per token (n …) -> the table in regard; missing special tokens get zeros."""
        rows = theirs[self.source_ids.clamp(min=0)]
        rows[self.source_ids < 0] = 0
        return rows

    def suppress_missing(self, bias: Tensor) -> Tensor:
        """Return a logit bias with which missing special tokens are never predicted."""
        bias = bias.clone()
        bias[list(self.missing_special_tokens)] = MASKED_LOGIT
        return bias


def read_vocabulary(
    path: Path, *, size: int, special_token_ids: Mapping[str, Any], mask: bool = False
) -> ImportedVocabulary:
    """tokenizer.json -> a vocabulary for tables of `size` rows. `special_token_ids` are the ids in the configuration of
    the model; with `mask` there must be a mask token."""
    try:
        engine = parse_engine(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises bare Exception for invalid JSON
        raise DataError(f"{path}: not a tokenizer file: {error}") from None
    state = json.loads(engine.to_str())
    names = {token_id: name for name, token_id in engine.get_vocab(with_added_tokens=True).items()}
    if max(names, default=0) >= size:
        raise CheckpointError(
            f"{path}: {max(names) + 1} tokens, but the model has {size}; the tokenizer belongs to another model"
        )
    specials = {name: _special_token_id(name, engine, special_token_ids.get(name), size) for name in COMMON_SPELLINGS}
    if mask and specials["mask"] is None:
        raise DataError(f"{path}: no mask token ({' or '.join(COMMON_SPELLINGS['mask'])})")
    first = [specials[name] for name in ("pad", "unknown", "start", "end")]
    last = [specials["mask"]] if mask else []
    regular = [token_id for token_id in range(size) if token_id not in (*first, *last)]
    rows = [*first, *regular, *last]
    token_names = [
        *SPECIAL_TOKENS,
        *(names.get(token_id, f"<unused {token_id}> ") for token_id in regular),
        *([MASK_TOKEN] if mask else []),
    ]
    assigned: set[int] = set()
    missing = []
    for index in (0, 1, 3, 2):  # a row that is both BOS and EOS belongs to EOS: only EOS is ever predicted
        if first[index] is None or first[index] in assigned:
            missing.append(index)
        else:
            assigned.add(int(first[index] or 0))
    tokenizer = Tokenizer(parse_engine(json.dumps(_renumbered(state, token_names, path))))
    if tokenizer.vocab_size != len(token_names):
        raise DataError(
            f"{path}: the tokens cannot be renumbered ({tokenizer.vocab_size} of {len(token_names)} remain)"
        )
    return ImportedVocabulary(
        tokenizer, torch.tensor([-1 if row is None else row for row in rows]), tuple(sorted(missing))
    )


def _special_token_id(name: str, engine: TokenizerEngine, configured: Any, size: int) -> int | None:
    """Return the id of a special token: the configured one (the first of several) if the tables have it, else the id
    of a common spelling."""
    configured = configured[0] if isinstance(configured, list) and configured else configured
    if isinstance(configured, int) and 0 <= configured < size:
        return configured
    ids = (engine.token_to_id(spelling) for spelling in (NATIVE_TOKENS[name], *COMMON_SPELLINGS[name]))
    return next((token_id for token_id in ids if token_id is not None), None)


def _renumbered(state: dict[str, Any], token_names: Sequence[str], path: Path) -> dict[str, Any]:
    """Return the tokenizer state with new ids, the special tokens of regard, and no post-processor."""
    model = dict(state["model"])
    ids = {name: token_id for token_id, name in enumerate(token_names)}
    if isinstance(model["vocab"], dict):
        model["vocab"] = ids
        if model.get("unk_token") is not None:
            model["unk_token"] = SPECIAL_TOKENS[SpecialTokens.unk]
    elif model.get("type") == "Unigram":
        scores = dict(model["vocab"])
        lowest = min(scores.values(), default=0.0) - 10
        model["vocab"] = [[name, scores.get(name, 0.0 if name in SPECIAL_TOKENS else lowest)] for name in token_names]
        model["unk_id"] = SpecialTokens.unk
    else:
        raise DataError(f"{path}: tokenizer type {model.get('type')} is not supported")
    added = [token for token in state.get("added_tokens", []) if token["content"] in ids]
    added = [token | {"id": ids[token["content"]]} for token in added]
    no_normalizer = {"type": "Sequence", "normalizers": []}
    return state | {
        "model": model,
        "added_tokens": [token for token in added if token["content"] not in (*SPECIAL_TOKENS, MASK_TOKEN)],
        "normalizer": state.get("normalizer") or no_normalizer,
        "post_processor": None,
        "truncation": None,
        "padding": None,
    }


def write_tokenizer(tokenizer: Tokenizer, folder: Path, library: Any, *, template: str, max_length: int) -> None:
    """Write a tokenizer as files for `AutoTokenizer`; `template` places the special tokens: {start} $A {end}."""
    engine = tokenizers.Tokenizer.from_str(tokenizer.engine.to_str())
    single = [NATIVE_TOKENS[part.strip("{}")] if part.startswith("{") else part for part in template.split()]
    engine.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[(name, SPECIAL_TOKENS.index(name)) for name in single if name in SPECIAL_TOKENS]
    )
    masked = {"mask_token": MASK_TOKEN} if engine.token_to_id(MASK_TOKEN) is not None else {}
    library.PreTrainedTokenizerFast(
        tokenizer_object=engine,
        pad_token=NATIVE_TOKENS["pad"],
        unk_token=NATIVE_TOKENS["unknown"],
        bos_token=NATIVE_TOKENS["start"],
        eos_token=NATIVE_TOKENS["end"],
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        **masked,
    ).save_pretrained(folder)
