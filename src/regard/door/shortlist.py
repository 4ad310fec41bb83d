"""The target tokens that may come for some sources: what their tokens are likely to become, and what is frequent.

Learned from the training data when it is first asked for, and kept beside the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import ConfigError, DataError, RegardError
from regard.core.protocols import Marks, Sizes
from regard.data import lexical
from regard.data.lexical import Lexicon
from regard.training import files
from regard.training.run import Run

FREQUENT = 512  # tokens that may always come: most of them are likely for some sentence of a batch in any case
VERSION = 1


@dataclass(frozen=True)
class Shortlist:
    """A lexicon, and how much of it is used."""

    lexicon: Lexicon
    marks: Marks
    joint: bool  # a source token may stand for itself: names
    each: int  # target tokens for each source token

    def __call__(self, source: Tensor) -> Tensor:
        """Source tokens (b s), of one sentence or many -> the target tokens that may come (n), ascending."""
        met = np.unique(source.cpu().numpy())
        likely = self.lexicon.likely[met, : self.each].ravel().astype(np.int64)
        found = np.concatenate([self.always(), likely, met if self.joint else likely[:0]])
        return torch.from_numpy(np.unique(found)).to(source.device)

    def always(self) -> NDArray[np.int64]:
        """The marks, before which no other number stands, and the most frequent tokens."""
        last = max(self.marks.pad, self.marks.unknown, self.marks.start, self.marks.end)
        return np.concatenate([np.arange(last + 1), self.lexicon.frequent[:FREQUENT].astype(np.int64)])

    def lines(self) -> Iterator[str]:
        """The same as CTranslate2 reads it: source token, tab, target tokens; without a source token they always come.

        Tokens go by their numbers, the end mark behind a source among them.
        """
        end, pad = self.marks.end, self.marks.pad
        yield f"\t{_words([*self.always().tolist(), *self._of(end)])}"
        for token in range(len(self.lexicon.likely)):
            found = [other for other in self._of(token) if other != pad]
            if found and token != end:
                yield f"{token}\t{_words(found)}"

    def _of(self, token: int) -> list[int]:
        return [*self.lexicon.likely[token, : self.each].tolist(), *([token] if self.joint else [])]


def _words(tokens: Iterable[int]) -> str:
    return " ".join(map(str, sorted(set(tokens))))


def open_shortlist(run: Run, each: int) -> Shortlist:
    """The shortlist of a run, `each` target tokens for a source token; made from the training data if it is not there.

    It belongs to data and vocabulary: whatever the weights, it is the same.
    """
    if not 0 < each <= lexical.KEPT:
        raise ConfigError(f"shortlist={each}: give 1 to {lexical.KEPT} target tokens for a source token, or 0 for all")
    sizes: Sizes = run.task.sizes
    path = run.folder / f"shortlist-{_digest(run.folder)}.safetensors"
    if not path.exists():
        _write(path, _learn(run, sizes))
    tensors, _ = files.read_tensors(path)
    lexicon = Lexicon(tensors["likely"].numpy(), tensors["frequent"].numpy())
    return Shortlist(lexicon, sizes.marks, joint=sizes.joint, each=each)


def _digest(folder: Path) -> str:
    """A name for the vocabulary of a run and the way a shortlist is made."""
    made = hashlib.sha256(str(VERSION).encode())
    for path in sorted(folder.glob("tokenizer*.json")):
        made.update(path.read_bytes())
    return made.hexdigest()[:12]


def _learn(run: Run, sizes: Sizes) -> Lexicon:
    try:
        corpus = run.task.corpus
    except RegardError as wrong:
        raise DataError(
            f"a shortlist is learned from the training data, which cannot be read ({wrong}); put the data back once, "
            "or leave the shortlist out"
        ) from None
    return lexical.learn(corpus, sizes)


def _write(path: Path, lexicon: Lexicon) -> None:
    tensors = {name: torch.from_numpy(part) for name, part in lexicon._asdict().items()}
    files.write_tensors(path, tensors, {"version": VERSION})
