"""Small documents and sentences for the tests of models that label and tag."""

import torch

from regard.core.data_specs import DocumentSpec, TaggingSpec, TagTransitions
from regard.layers.document_batch import SentenceBatch, UnitBatch

DOCUMENTS = DocumentSpec(vocab_size=30, num_labels=3, max_length=40, max_sentence_length=9, max_sentences=6)
BIO = TagTransitions(
    (True, True, False), ((True, True, False), (True, True, True), (True, True, True)), (True, True, True)
)
TAGGED = TaggingSpec(vocab_size=30, num_characters=12, max_length=20, allowed_transitions=BIO)


def documents(counts=(2, 1, 3), width=7, seed=0):
    chance = torch.Generator().manual_seed(seed)
    n = sum(counts)
    lengths = torch.randint(1, width + 1, (n,), generator=chance)
    tokens = torch.randint(4, 30, (n, width), generator=chance).masked_fill(torch.arange(width) >= lengths[:, None], 0)
    return SentenceBatch(tokens, lengths, torch.tensor(counts))


def document(given: SentenceBatch, number: int) -> SentenceBatch:
    """One document alone, without padding."""
    first = int(given.counts[:number].sum())
    rows = slice(first, first + int(given.counts[number]))
    lengths = given.lengths[rows]
    width = int(lengths.max()) if len(lengths) else 0
    return SentenceBatch(given.tokens[rows, :width], lengths, given.counts[number : number + 1])


def sentences(counts=(4, 1, 6), seed=0, several=True):
    """Units of one token or two, and their letters."""
    chance = torch.Generator().manual_seed(seed)
    b, u = len(counts), max(counts)
    sizes = torch.randint(1, 3 if several else 2, (b, u), generator=chance)
    there = torch.arange(u) < torch.tensor(counts)[:, None]
    sizes = sizes * there
    lengths = sizes.sum(dim=1)
    firsts = (sizes.cumsum(dim=1) - sizes) * there
    tokens = torch.randint(4, 30, (b, int(lengths.max())), generator=chance)
    tokens = tokens.masked_fill(torch.arange(tokens.shape[1]) >= lengths[:, None], 0)
    letters = torch.randint(4, 12, (b, u, 5), generator=chance)
    spelt = torch.arange(5) < torch.randint(1, 6, (b, u, 1), generator=chance)
    return UnitBatch(tokens, lengths, firsts, torch.tensor(counts), letters * spelt * there[..., None])


def sentence(given: UnitBatch, number: int) -> UnitBatch:
    """One sentence alone, without padding."""
    t, u = int(given.lengths[number]), int(given.counts[number])
    rows = slice(number, number + 1)
    return UnitBatch(
        given.tokens[rows, :t],
        given.lengths[rows],
        given.first_token_indices[rows, :u],
        given.counts[rows],
        given.characters[rows, :u],
    )
