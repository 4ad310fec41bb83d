"""Hashed n-gram embeddings: windows, chunks, and new n-grams."""

import torch

from regard.layers.ngram_embedding import AROUND, BEFORE, NgramEmbedding


def layer(patterns, rows=5000):
    embedding = NgramEmbedding(rows, 6, patterns=patterns, pad=0, dropout=0.0)
    torch.nn.init.normal_(embedding.table.weight)
    return embedding


def test_a_new_table_adds_nothing():
    embedding = NgramEmbedding(50, 6, patterns=AROUND, pad=0, dropout=0.0)
    assert not embedding(torch.randint(4, 30, (2, 7))).any()


def test_only_the_tokens_of_the_patterns_matter():
    embedding, tokens = layer(AROUND), torch.randint(4, 30, (1, 9))
    changed = tokens.clone()
    changed[0, 4] += 30
    is_equal = (embedding(tokens) == embedding(changed)).all(dim=-1)[0]
    assert is_equal.tolist() == [abs(position - 4) > 2 for position in range(9)]


def test_tokens_before_a_chunk_continue_its_ngrams():
    embedding, tokens = layer(BEFORE), torch.randint(4, 30, (2, 9))
    recent = embedding.padding(tokens)
    torch.testing.assert_close(embedding(torch.cat([recent, tokens], dim=1))[:, recent.shape[1] :], embedding(tokens))


def test_the_scale_multiplies_the_features():
    embedding, tokens = layer(BEFORE), torch.randint(4, 30, (2, 9))
    features = embedding(tokens)
    embedding.scale = 3.0
    torch.testing.assert_close(embedding(tokens), 3 * features)
