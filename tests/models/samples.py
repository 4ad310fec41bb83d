"""Small documents and sentences for the tests of document and tagging models."""

import torch

from regard.core.data_specs import DocumentSpec, TaggingSpec, TagTransitions
from regard.layers.document_batch import SentenceBatch, UnitBatch

DOCUMENTS = DocumentSpec(vocab_size=30, num_labels=3, max_length=40, max_sentence_length=9, max_sentences=6)
BIO = TagTransitions(
    (True, True, False), ((True, True, False), (True, True, True), (True, True, True)), (True, True, True)
)
TAGGED = TaggingSpec(vocab_size=30, num_characters=12, max_length=20, allowed_transitions=BIO)


def documents(counts=(2, 1, 3), width=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    n = sum(counts)
    lengths = torch.randint(1, width + 1, (n,), generator=generator)
    tokens = torch.randint(4, 30, (n, width), generator=generator).masked_fill(
        torch.arange(width) >= lengths[:, None], 0
    )
    return SentenceBatch(tokens, lengths, torch.tensor(counts))


def document(batch: SentenceBatch, index: int) -> SentenceBatch:
    """Return one document without padding."""
    first = int(batch.counts[:index].sum())
    rows = slice(first, first + int(batch.counts[index]))
    lengths = batch.lengths[rows]
    width = int(lengths.max()) if len(lengths) else 0
    return SentenceBatch(batch.tokens[rows, :width], lengths, batch.counts[index : index + 1])


def sentences(counts=(4, 1, 6), seed=0, multi_token=True):
    """Units of one or two tokens, and their characters."""
    generator = torch.Generator().manual_seed(seed)
    b, u = len(counts), max(counts)
    sizes = torch.randint(1, 3 if multi_token else 2, (b, u), generator=generator)
    mask = torch.arange(u) < torch.tensor(counts)[:, None]
    sizes = sizes * mask
    lengths = sizes.sum(dim=1)
    firsts = (sizes.cumsum(dim=1) - sizes) * mask
    tokens = torch.randint(4, 30, (b, int(lengths.max())), generator=generator)
    tokens = tokens.masked_fill(torch.arange(tokens.shape[1]) >= lengths[:, None], 0)
    characters = torch.randint(4, 12, (b, u, 5), generator=generator)
    is_character = torch.arange(5) < torch.randint(1, 6, (b, u, 1), generator=generator)
    return UnitBatch(tokens, lengths, firsts, torch.tensor(counts), characters * is_character * mask[..., None])


def sentence(batch: UnitBatch, index: int) -> UnitBatch:
    """Return one sentence without padding."""
    t, u = int(batch.lengths[index]), int(batch.counts[index])
    rows = slice(index, index + 1)
    return UnitBatch(
        batch.tokens[rows, :t],
        batch.lengths[rows],
        batch.first_token_indices[rows, :u],
        batch.counts[rows],
        batch.characters[rows, :u],
    )
