"""A shortlist learned from the sentences of the benchmark, for regard and for CTranslate2 alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from regard.api.shortlist import Shortlist
from regard.core.sizes import Marks, Text
from regard.data import lexical
from regard.data.corpus import PairCorpus, Ragged
from systems import work

EACH = 16  # target tokens for each source token


def learn(sentences: work.Sentences, sizes: Text) -> lexical.Lexicon:
    """From the training pairs, as a run's is."""
    return lexical.learn(PairCorpus(_ragged(sentences.source), _ragged(sentences.target)), sizes)


def _ragged(rows: work.Rows) -> Ragged:
    edges = np.cumsum([0, *map(len, rows)])
    return Ragged(np.concatenate([np.array(row, dtype=np.int32) for row in rows]), edges)


def shortlist(lexicon: lexical.Lexicon) -> Shortlist:
    return Shortlist(lexicon, Marks(), joint=True, each=EACH)


def save(lexicon: lexical.Lexicon, path: Path) -> None:
    np.savez(path, **lexicon._asdict())


def load(path: Path) -> Shortlist:
    """What `save` wrote."""
    with np.load(path) as parts:
        return shortlist(lexical.Lexicon(parts["likely"], parts["frequent"]))
