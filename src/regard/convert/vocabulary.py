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
TARGET_PREFIX, SOURCE_PREFIX = "\ue000", "\ue001"  # private characters before the names of tokens
TOKEN_ROLES = {"pad": "pad", "unk": "unknown", "bos": "start", "eos": "end"}  # names of roles in transformers
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
    offset: int = 0  # original id of the first token of the vocabulary, if there are two in one
    adds_start_token: bool = False  # the original tokenizer adds BOS to every text

    def to_source_ids(self, tokens: Tensor) -> Tensor:
        """Token ids of regard -> original ids."""
        return self.source_ids[tokens] + self.offset

    def select_rows(self, huggingface_model: Tensor) -> Tensor:
        """An original table with a row per token (n …) -> the table in regard; missing special tokens get zeros."""
        rows = huggingface_model[self.source_ids.clamp(min=0)]
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
        tokenizer,
        torch.tensor([-1 if row is None else row for row in rows]),
        tuple(sorted(missing)),
        adds_start_token=engine.encode("a").ids[:1] == [specials["start"]],
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
    return _with_strip(state) | {
        "model": model,
        "added_tokens": [token for token in added if token["content"] not in (*SPECIAL_TOKENS, MASK_TOKEN)],
        "normalizer": state.get("normalizer") or no_normalizer,
        "post_processor": None,
        "truncation": None,
        "padding": None,
    }


def _with_strip(state: dict[str, Any]) -> dict[str, Any]:
    """Return the tokenizer state with a decoder that removes the space which the normalizer puts before a text."""
    normalizer = tokenizers.Tokenizer.from_str(json.dumps(state)).normalizer
    decoder = state.get("decoder") or {"type": "Fuse"}
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    is_prefixed = normalizer is not None and normalizer.normalize_str("a").startswith(" ")
    if not is_prefixed or any(step["type"] in ("Strip", "Metaspace") for step in steps):
        return state
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    return state | {"decoder": {"type": "Sequence", "decoders": [*steps, strip]}}


def merged_tokenizer(source: Tokenizer, target: Tokenizer) -> tokenizers.Tokenizer:
    """Return one tokenizer that encodes with the source vocabulary and decodes with the target vocabulary.

    Target tokens have the ids 0 … n-1 and source tokens the ids from n on. The names of regular target tokens get a
    character that no text has, which the decoder removes; so do the special tokens of the source.
    """
    state, target_state = (json.loads(part.engine.to_str()) for part in (source, target))
    count = target.vocab_size
    names = [_in_target(str(target.engine.id_to_token(index))) for index in range(count)]
    names += [_in_source(str(source.engine.id_to_token(index))) for index in range(source.vocab_size)]
    model = dict(state["model"])
    if isinstance(model["vocab"], dict):
        model["vocab"] = {name: index for index, name in enumerate(names)}
        if model.get("unk_token") is not None:
            model["unk_token"] = _in_source(model["unk_token"])
    else:
        scores = dict(model["vocab"])
        lowest = min(scores.values(), default=0.0) - 10
        model["vocab"] = [[name, scores.get(name, lowest)] for name in names]
        model["unk_id"] = count + SpecialTokens.unk
    remove_prefixes = [
        {"type": "Replace", "pattern": {"String": prefix}, "content": ""} for prefix in (TARGET_PREFIX, SOURCE_PREFIX)
    ]
    decoder = target_state["decoder"]
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    added = [
        token | {"content": _in_source(token["content"]), "id": token["id"] + count} for token in state["added_tokens"]
    ]
    merged = {
        "model": model,
        "decoder": {"type": "Sequence", "decoders": [*remove_prefixes, *steps]},
        "added_tokens": added,
    }
    return tokenizers.Tokenizer.from_str(json.dumps(state | merged))


def _in_target(name: str) -> str:
    return name if name in SPECIAL_TOKENS else TARGET_PREFIX + name


def _in_source(name: str) -> str:
    return SOURCE_PREFIX + name if name in SPECIAL_TOKENS else name


def write_tokenizer(
    engine: tokenizers.Tokenizer, folder: Path, library: Any, *, template: str, max_length: int, first_id: int = 0
) -> None:
    """Write a tokenizer as files for `AutoTokenizer`; `template` places the special tokens: {start} $A {end}.

    `first_id` is the id of the first token of the vocabulary that encodes: not 0 if there are two.
    """
    state = json.loads(engine.to_str())
    names = _common_names(state)
    for part, token in NATIVE_TOKENS.items():
        names.setdefault(SOURCE_PREFIX + token, SOURCE_PREFIX + names.get(token, part))
    engine = tokenizers.Tokenizer.from_str(json.dumps(_with_names(state, names)))
    prefix = SOURCE_PREFIX if first_id else ""
    single = [
        names[prefix + NATIVE_TOKENS[part.strip("{}")]] if part.startswith("{") else part for part in template.split()
    ]
    placed = [name for name in single if not name.startswith("$")]
    engine.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[(name, engine.token_to_id(name)) for name in placed]
    )
    special_tokens: dict[str, Any] = {f"{part}_token": names[NATIVE_TOKENS[key]] for part, key in TOKEN_ROLES.items()}
    if engine.token_to_id(names[MASK_TOKEN]) is not None:
        # normalized like the text, so that the mask token includes the space before it
        special_tokens["mask_token"] = tokenizers.AddedToken(names[MASK_TOKEN], normalized=True, special=True)
    if first_id:
        special_tokens["additional_special_tokens"] = [names[prefix + NATIVE_TOKENS["end"]]]
    library.PreTrainedTokenizerFast(
        tokenizer_object=engine,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **special_tokens,
    ).save_pretrained(folder)


def _common_names(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the special tokens for other libraries, without a space at the end.

    A name that the vocabulary already has stays as it is in regard.
    """
    vocabulary = state["model"]["vocab"]
    used = set(vocabulary) if isinstance(vocabulary, dict) else {name for name, _ in vocabulary}
    common = {"pad": "<pad>", "unknown": "<unk>", "start": "<s>", "end": "</s>", "mask": "[MASK]"}
    return {token: token if common[key] in used else common[key] for key, token in NATIVE_TOKENS.items()}


def _with_names(state: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the tokenizer state with other names of tokens."""
    model = dict(state["model"])
    if isinstance(model["vocab"], dict):
        model["vocab"] = {names.get(name, name): index for name, index in model["vocab"].items()}
    else:
        model["vocab"] = [[names.get(name, name), score] for name, score in model["vocab"]]
    if model.get("unk_token") is not None:
        model["unk_token"] = names.get(model["unk_token"], model["unk_token"])
    added = [token | {"content": names.get(token["content"], token["content"])} for token in state["added_tokens"]]
    return state | {"model": model, "added_tokens": added}


def without_strip(engine: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Return the tokenizer with a decoder that keeps the first space, so that a continuation decoded alone has it."""
    state = json.loads(engine.to_str())
    decoder = state["decoder"]
    if decoder["type"] == "Sequence":
        steps = [step for step in decoder["decoders"] if step["type"] != "Strip"]
        state["decoder"] = decoder | {"decoders": steps}
    return tokenizers.Tokenizer.from_str(json.dumps(state))
