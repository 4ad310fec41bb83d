"""Which target tokens a source token is likely to become, learned from sentence pairs: IBM model 1, Brown et al. 1993.

P(t | s) is found by expectation and maximisation: every target token of a pair divides itself among the pair's source
tokens in proportion to P(t | s), and P(t | s) is what the token s received of all. The source's end mark stands for
no word at all, so that target tokens without a counterpart have one. All of it in flat arrays, one entry a link.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.core.protocols import Sizes
from regard.data.corpus import PairCorpus, Ragged

ROUNDS = 4  # of expectation and maximisation: the order of the likely tokens hardly changes afterwards
LINKS = 16_000_000  # source tokens × target tokens of all pairs looked at; of a larger corpus every n-th pair
KEPT = 64  # likely target tokens remembered for each source token
LEAST = 0.01  # a probability below is chance: rare source tokens would bring in all they ever stood beside

Numbers = NDArray[np.int64]


class Lexicon(NamedTuple):
    """Target tokens, likeliest first: of each source token, and of all text."""

    likely: NDArray[np.int32]  # (source vocabulary, KEPT), filled up with the padding mark
    frequent: NDArray[np.int32]  # (target vocabulary)


class _Links(NamedTuple):
    """Every source token of a pair beside every target token of it; kinds are distinct (source, target) tokens."""

    place: Numbers  # (links) which target token of the text it is
    kind: Numbers  # (links)
    source: Numbers  # (kinds)
    target: Numbers  # (kinds)


def learn(corpus: PairCorpus, sizes: Sizes) -> Lexicon:
    """Sentence pairs as tokens -> what each source token is likely to become."""
    if not corpus.pairs:
        raise DataError("there are no training pairs to learn a lexicon from; check the data: regard data check")
    links = _links(*_sample(corpus), end=sizes.marks.end)
    counts = np.bincount(np.asarray(corpus.target.tokens), minlength=sizes.target)
    frequent = np.argsort(-counts, kind="stable").astype(np.int32)
    return Lexicon(_ranked(links, _fit(links), sizes=sizes), frequent)


def _sample(corpus: PairCorpus) -> tuple[Ragged, Ragged]:
    source, target = corpus.lengths()
    every = 1 + int((source * target).sum()) // LINKS
    if every == 1:
        return corpus.source, corpus.target
    examples = np.arange(0, corpus.pairs, every)
    return _rows(corpus.source, examples), _rows(corpus.target, examples)


def _rows(side: Ragged, examples: Numbers) -> Ragged:
    starts, lengths = side.edges[examples], side.lengths()[examples]
    edges = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    return Ragged(side.tokens[np.repeat(starts - edges[:-1], lengths) + np.arange(edges[-1])], edges)


def _links(source: Ragged, target: Ragged, *, end: int) -> _Links:
    tokens = np.insert(np.asarray(source.tokens, dtype=np.int64), source.edges[1:], end)  # the end mark behind each row
    widths, starts = source.lengths() + 1, source.edges[:-1] + np.arange(source.rows)
    words = np.asarray(target.tokens, dtype=np.int64)
    pair = np.repeat(np.arange(target.rows), target.lengths())  # of each target token
    many = widths[pair]
    place = np.repeat(np.arange(len(words)), many)
    inside = np.arange(len(place)) - np.repeat(np.cumsum(many) - many, many)
    spread = int(words.max(initial=0)) + 1
    keys = tokens[starts[pair][place] + inside] * spread + words[place]
    kinds, kind = np.unique(keys, return_inverse=True)
    return _Links(place, kind, kinds // spread, kinds % spread)


def _fit(links: _Links) -> NDArray[np.float64]:
    """P(t | s) of each kind of link."""
    chance = np.ones(len(links.source))
    for _ in range(ROUNDS):
        shares = chance[links.kind]
        shares /= np.bincount(links.place, shares)[links.place]
        received = np.bincount(links.kind, shares, minlength=len(chance))
        chance = received / np.bincount(links.source, received)[links.source]
    return chance


def _ranked(links: _Links, chance: NDArray[np.float64], *, sizes: Sizes) -> NDArray[np.int32]:
    order = np.lexsort((-chance, links.source))
    source, target = links.source[order], links.target[order]
    rank = np.arange(len(order)) - np.searchsorted(source, source)
    kept = (rank < KEPT) & (chance[order] >= LEAST)
    likely = np.full((sizes.source, KEPT), sizes.marks.pad, dtype=np.int32)
    likely[source[kept], rank[kept]] = target[kept]
    return likely
