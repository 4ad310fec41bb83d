"""PyTorch baseline as in its tutorials: nn.Transformer or a GRU with attention, in a plain loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from systems.workload import END, LENGTH, PAD, SHAPES, START, VOCABULARY, Rows, Shape


def pad(rows: Rows) -> Tensor:
    """Rows -> (b t)."""
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


class PlainTransformer(nn.Module):
    """nn.Transformer with one tied embedding and sinusoidal positions."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        dim = shape.dim
        self.table = nn.Embedding(VOCABULARY, dim, padding_idx=PAD)
        nn.init.normal_(self.table.weight, 0, dim**-0.5)
        self.net = nn.Transformer(
            dim, shape.heads, shape.layers, shape.layers, shape.hidden, shape.dropout, batch_first=True
        )
        self.out = nn.Linear(dim, VOCABULARY, bias=False)
        self.out.weight = self.table.weight
        angles = torch.arange(512)[:, None] * torch.exp(-torch.arange(0, dim, 2) * math.log(10000) / dim)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))
        self.dropout = nn.Dropout(shape.dropout)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(
            self.table(tokens) * math.sqrt(self.table.embedding_dim) + self.positions[: tokens.shape[1]]
        )

    def decode(self, tokens: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        size = tokens.shape[1]
        ahead = torch.triu(torch.ones(size, size, dtype=torch.bool), 1)
        return self.net.decoder(self.embed(tokens), memory, ahead, memory_key_padding_mask=padding)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = source == PAD
        memory = self.net.encoder(self.embed(source), src_key_padding_mask=padding)
        return self.out(self.decode(target, memory, padding))


class PlainRecurrent(nn.Module):
    """A GRU in both directions, additive attention whose keys are projected at every step, a GRU cell in a loop."""

    def __init__(self, dim: int = 512, words: int = 256) -> None:
        super().__init__()
        self.source, self.target = (nn.Embedding(VOCABULARY, words, padding_idx=PAD) for _ in range(2))
        self.encoder = nn.GRU(words, dim, batch_first=True, bidirectional=True)
        self.first, self.query = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.key, self.energy = nn.Linear(2 * dim, dim), nn.Linear(dim, 1)
        self.cell = nn.GRUCell(words + 2 * dim, dim)
        self.join, self.out = nn.Linear(dim + 2 * dim + words, words), nn.Linear(words, VOCABULARY)
        self.dropout = nn.Dropout(0.3)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        lengths = (source != PAD).sum(dim=1)
        embedded = self.dropout(self.source(source))
        packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        out, last = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        hidden, logits = torch.tanh(self.first(last[1])), []
        for word in self.dropout(self.target(target)).unbind(1):
            scores = self.energy(torch.tanh(self.query(hidden)[:, None] + self.key(memory))).squeeze(2)
            weights = scores.masked_fill(source == PAD, -math.inf).softmax(dim=1)
            context = (weights[:, None] @ memory)[:, 0]
            hidden = self.cell(torch.cat([word, context], 1), hidden)
            joined = torch.cat([self.dropout(hidden), context, word], 1)
            logits.append(self.out(self.dropout(torch.tanh(self.join(joined)))))
        return torch.stack(logits, 1)


def model(name: str) -> nn.Module:
    """Return the model of a shape."""
    return PlainRecurrent() if name == "bahdanau" else PlainTransformer(SHAPES[name])


def trainer(
    forward: Callable[[Tensor, Tensor], Tensor], net: nn.Module, batches: Iterator, dtype: torch.dtype
) -> Callable[[], int]:
    """Return a step of the tutorials' loop; a step returns the number of its target tokens."""
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, betas=(0.9, 0.98))
    net.train()

    def step() -> int:
        source, target = next(batches)
        labels = pad([[*row, END] for row in target])
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            logits = forward(pad([[*row, END] for row in source]), pad([[START, *row] for row in target]))
        loss = functional.cross_entropy(
            logits.float().flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=0.1
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return sum(len(row) + 1 for row in target)

    return step


@torch.inference_mode()
def greedy(net: nn.Module, rows: Rows) -> int:
    """Decode as in the tutorials: without a cache, the prefix is decoded again at every step."""
    source = pad(rows)
    padding = source == PAD
    memory = net.net.encoder(net.embed(source), src_key_padding_mask=padding)
    tokens = torch.full((len(rows), 1), START)
    for _ in range(LENGTH):
        logits = net.out(net.decode(tokens, memory, padding)[:, -1])
        logits[:, END] = -math.inf
        tokens = torch.cat([tokens, logits.argmax(dim=1, keepdim=True)], dim=1)
    return len(rows)
