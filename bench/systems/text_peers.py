"""Baselines of bench/text.py: GPT and a hierarchical model in plain PyTorch, and models of Hugging Face."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.data_specs import DocumentSpec
from regard.layers.document_batch import SentenceBatch


class Shape(NamedTuple):
    """Shape of a Transformer."""

    layers: int
    dim: int
    heads: int
    context: int
    vocabulary: int
    dropout: float = 0.0


class PlainBlock(nn.Module):
    """A block as nanoGPT has it: one matrix for queries, keys and values, the fused kernel, GELU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, shape.dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(shape.dim), nn.LayerNorm(shape.dim)
        self.attn, self.proj = nn.Linear(shape.dim, 3 * shape.dim), nn.Linear(shape.dim, shape.dim)
        self.fc, self.out = nn.Linear(shape.dim, 4 * shape.dim), nn.Linear(4 * shape.dim, shape.dim)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.attn(self.ln_1(x)).split(d, dim=2)
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.dropout(self.proj(y.transpose(1, 2).contiguous().view(b, t, d)), self.dropout, self.training)
        return x + F.dropout(self.out(F.gelu(self.fc(self.ln_2(x)))), self.dropout, self.training)


class PlainGPT(nn.Module):
    """nanoGPT's model, written from its description."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(shape.vocabulary, shape.dim), nn.Embedding(shape.context, shape.dim)
        self.blocks = nn.ModuleList(PlainBlock(shape) for _ in range(shape.layers))
        self.ln_f, self.head = nn.LayerNorm(shape.dim), nn.Linear(shape.dim, shape.vocabulary, bias=False)
        self.head.weight = self.wte.weight
        self.dropout = shape.dropout
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def loss(self, tokens: Tensor, following: Tensor) -> Tensor:
        x = F.dropout(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])), self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), following.flatten())


def hf_gpt(shape: Shape) -> nn.Module:
    """Return Hugging Face's GPT-2 of the same shape."""
    import transformers

    config = transformers.GPT2Config(
        vocab_size=shape.vocabulary,
        n_positions=max(shape.context, 1024),
        n_embd=shape.dim,
        n_layer=shape.layers,
        n_head=shape.heads,
        resid_pdrop=shape.dropout,
        embd_pdrop=shape.dropout,
        attn_pdrop=0.0,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config)


def hf_bert(shape: Shape) -> nn.Module:
    """Return Hugging Face's BERT for masked language modeling of the same shape."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.dim,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.dim,
        max_position_embeddings=shape.context,
        hidden_dropout_prob=shape.dropout,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.BertForMaskedLM(config)


class PlainHierarchical(nn.Module):
    """Yang et al. 2016 as it is often written, a loop over documents and in each over its sentences: every sentence
    goes through an nn.GRU by itself. It shares the weights of a regard model, so that both give the same features."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.table, self.levels = model.embedding.table, nn.ModuleList([model.words, model.sentences])
        self.readout = model.readout

    def pool(self, x: Tensor, level: int) -> Tensor:
        """(n d) -> (2·dim)."""
        part = self.levels[level]
        mixed = part.mixer.both.net(x[None])[0][0]
        weights = torch.softmax(torch.tanh(part.pool.hidden(mixed)) @ part.pool.query, dim=0)
        return weights @ mixed

    def forward(self, documents: SentenceBatch) -> Tensor:
        features, first = [], 0
        for count in documents.counts.tolist():
            rows = range(first, first + count)
            sentences = [self.pool(self.table(documents.tokens[i, : documents.lengths[i]]), 0) for i in rows]
            features.append(self.pool(torch.stack(sentences), 1))
            first += count
        return torch.stack(features)


def sample(documents: int, sizes: DocumentSpec, *, seed: int = 0) -> SentenceBatch:
    """Return random documents with lengths like those of IMDB."""
    chance = torch.Generator().manual_seed(seed)
    counts = (torch.randn(documents, generator=chance) * 0.6 + 2.3).exp().long().clamp(1, sizes.max_sentences)
    lengths = (
        (torch.randn(int(counts.sum()), generator=chance) * 0.6 + 2.95).exp().long().clamp(1, sizes.max_sentence_length)
    )
    tokens = torch.randint(4, sizes.vocab_size, (len(lengths), int(lengths.max())), generator=chance)
    return SentenceBatch(tokens * (torch.arange(tokens.shape[1]) < lengths[:, None]), lengths, counts)
