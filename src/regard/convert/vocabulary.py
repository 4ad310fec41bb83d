"""A vocabulary of others as one of ours, and ours for others.

Here the marks are the tokens 0 to 3, under names that no text can spell, and a mask mark is the last token. So tokens
of a stranger's tokenizer.json get new numbers; `rows` says which row of a table of theirs each token of ours has.
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

MASKED_LOGIT = -1e4  # added to the logit of a mark that the model of others does not have: its probability is 0
NATIVE_TOKENS = dict(zip(("pad", "unknown", "start", "end", "mask"), (*SPECIAL_TOKENS, MASK_TOKEN), strict=True))
COMMON_SPELLINGS = {  # what others call marks, most telling first
    "pad": ("[PAD]", "<pad>"),
    "unknown": ("[UNK]", "<unk>"),
    "start": ("[CLS]", "<s>", "<|endoftext|>"),
    "end": ("[SEP]", "</s>", "<|endoftext|>"),
    "mask": ("[MASK]", "<mask>"),
}


@dataclass(frozen=True)
class ImportedVocabulary:
    """A tokenizer of ours, and where the rows of its tokens are."""

    tokenizer: Tokenizer
    source_ids: Tensor  # (n) of each token its number there; -1: there is none
    missing_special_tokens: tuple[int, ...]  # marks that have no row of their own there

    def to_source_ids(self, tokens: Tensor) -> Tensor:
        """Tokens of ours -> their numbers there."""
        return self.source_ids[tokens]

    def select_rows(self, theirs: Tensor) -> Tensor:
        """A table of theirs, with a row for each token (n …) -> ours; a mark that is not there has zeros."""
        taken = theirs[self.source_ids.clamp(min=0)]
        taken[self.source_ids < 0] = 0
        return taken

    def suppress_missing(self, bias: Tensor) -> Tensor:
        """Numbers that are added to logits -> the same, by which marks that are not there are never foretold."""
        bias = bias.clone()
        bias[list(self.missing_special_tokens)] = MASKED_LOGIT
        return bias


def read_vocabulary(
    path: Path, *, size: int, special_token_ids: Mapping[str, Any], mask: bool = False
) -> ImportedVocabulary:
    """tokenizer.json -> a vocabulary of ours for tables of `size` rows. `known` are numbers of marks by our names, as
    the model's configuration tells them; with `mask` there must be a mask mark."""
    try:
        engine = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as wrong:  # the library raises bare Exception for whatever is wrong with the JSON
        raise DataError(f"{path}: not a tokenizer file: {wrong}") from None
    state = json.loads(engine.to_str())
    names = {number: name for name, number in engine.get_vocab(with_added_tokens=True).items()}
    if max(names, default=0) >= size:
        raise CheckpointError(f"{path}: {max(names) + 1} tokens, but the model has {size}; they belong to two models")
    marks = {mark: _number(mark, engine, special_token_ids.get(mark), size) for mark in COMMON_SPELLINGS}
    if mask and marks["mask"] is None:
        raise DataError(f"{path}: there is no token {' or '.join(COMMON_SPELLINGS['mask'])} for what is covered")
    first = [marks[mark] for mark in ("pad", "unknown", "start", "end")]
    last = [marks["mask"]] if mask else []
    others = [number for number in range(size) if number not in (*first, *last)]
    rows = [*first, *others, *last]
    spelt = [
        *SPECIAL_TOKENS,
        *(names.get(number, f"<unused {number}> ") for number in others),
        *([MASK_TOKEN] if mask else []),
    ]
    taken: set[int] = set()
    invented = []
    for place in (0, 1, 3, 2):  # a row that is start and end is the end's: only that is ever foretold
        if first[place] is None or first[place] in taken:
            invented.append(place)
        else:
            taken.add(int(first[place] or 0))
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(_renamed(state, spelt, path))))
    if tokenizer.vocab_size != len(spelt):
        raise DataError(f"{path}: its tokens cannot be numbered anew ({tokenizer.vocab_size} of {len(spelt)} are left)")
    return ImportedVocabulary(
        tokenizer, torch.tensor([-1 if row is None else row for row in rows]), tuple(sorted(invented))
    )


def _number(mark: str, engine: tokenizers.Tokenizer, known: Any, size: int) -> int | None:
    """The number of a mark as the configuration tells it, the first of several. One beyond the tables is what the
    configuration had before anybody made these tables, and says nothing."""
    known = known[0] if isinstance(known, list) and known else known
    if isinstance(known, int) and 0 <= known < size:
        return known
    numbers = (engine.token_to_id(name) for name in (NATIVE_TOKENS[mark], *COMMON_SPELLINGS[mark]))
    return next((number for number in numbers if number is not None), None)


def _renamed(state: dict[str, Any], spelt: Sequence[str], path: Path) -> dict[str, Any]:
    """The tokenizer's state with other numbers, marks under our names, and nothing that adds marks to a text."""
    model = dict(state["model"])
    numbers = {name: number for number, name in enumerate(spelt)}
    if isinstance(model["vocab"], dict):
        model["vocab"] = numbers
        if model.get("unk_token") is not None:
            model["unk_token"] = SPECIAL_TOKENS[SpecialTokens.unk]
    elif model.get("type") == "Unigram":
        scores = dict(model["vocab"])
        least = min(scores.values(), default=0.0) - 10
        model["vocab"] = [[name, scores.get(name, 0.0 if name in SPECIAL_TOKENS else least)] for name in spelt]
        model["unk_id"] = SpecialTokens.unk
    else:
        raise DataError(f"{path}: a tokenizer of the kind {model.get('type')}, which regard does not read")
    told = [token for token in state.get("added_tokens", []) if token["content"] in numbers]
    added = [token | {"id": numbers[token["content"]]} for token in told]
    nothing = {"type": "Sequence", "normalizers": []}
    return state | {
        "model": model,
        "added_tokens": [token for token in added if token["content"] not in (*SPECIAL_TOKENS, MASK_TOKEN)],
        "normalizer": state.get("normalizer") or nothing,
        "post_processor": None,
        "truncation": None,
        "padding": None,
    }


def write_tokenizer(tokenizer: Tokenizer, folder: Path, library: Any, *, template: str, longest: int) -> None:
    """A tokenizer of ours as files that `AutoTokenizer` reads; `template` says where marks stand: {start} $A {end}."""
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
        model_max_length=longest,
        clean_up_tokenization_spaces=False,
        **masked,
    ).save_pretrained(folder)
