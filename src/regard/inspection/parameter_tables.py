"""Position encodings and embeddings of a model, prepared for display."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from regard.core.inspectable import Vocabulary
from regard.core.pca import project_2d
from regard.inspection.json_format import Embeddings, Positions
from regard.inspection.map_tiles import FloatArray
from regard.layers.positions._base import PositionScheme

MAX_POSITIONS = 64
NUM_NEIGHBOURS = 8


class ParameterTables(NamedTuple):
    """Tables of a model, independent of the input; computed once."""

    positions: Positions | None
    embeddings: tuple[Embeddings, ...]


def collect_tables(model: nn.Module, vocabularies: tuple[Vocabulary, ...]) -> ParameterTables:
    """Return both tables of a model."""
    return ParameterTables(positions(model), embeddings(model, vocabularies))


@torch.no_grad()
def positions(model: nn.Module) -> Positions | None:
    """Return the first position scheme that adds encodings to the features; None if positions only affect the score."""
    for scheme in model.modules():
        if not isinstance(scheme, PositionScheme):
            continue
        count = min(MAX_POSITIONS, scheme.longest)
        device = next(model.parameters()).device
        encodings = scheme.encode(torch.arange(count, device=device), count)
        if encodings is not None and encodings.dim() == 2:
            table = np.asarray(encodings.cpu().numpy(), dtype=np.float32)
            return Positions(type(scheme).__module__.rpartition(".")[2], table, by_distance(table))
    return None


def by_distance(table: FloatArray) -> FloatArray:
    """(n d) -> (n,): mean dot product of two rows, by their distance."""
    products = table @ table.T
    return np.array([products.diagonal(n).mean() for n in range(len(table))], dtype=np.float32)


@torch.no_grad()
def embeddings(model: nn.Module, vocabularies: tuple[Vocabulary, ...]) -> tuple[Embeddings, ...]:
    """Project the embeddings of each vocabulary to two dimensions with PCA and t-SNE; empty without scikit-learn."""
    layers = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    spaces = []
    for index, vocabulary in enumerate(vocabularies):
        matching = [table for table in layers if table.num_embeddings == vocabulary.size]
        if not matching or len(vocabulary.tokens) < NUM_NEIGHBOURS:
            continue
        table = matching[min(index, len(matching) - 1)]  # two vocabularies may have equal sizes, or share one table
        vectors = table.weight[list(vocabulary.tokens)].float().cpu().numpy()
        spaces += [
            Embeddings(f"{vocabulary.name}, {method}", method, vocabulary.labels, points, neighbours(vectors))
            for method, points in project_2d(vectors).items()
        ]
    return tuple(spaces)


def neighbours(vectors: FloatArray) -> tuple[tuple[tuple[int, float], ...], ...]:
    """(n d) -> nearest neighbours of each row by cosine."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    order = np.argsort(-cosines, axis=1)[:, :NUM_NEIGHBOURS]
    return tuple(
        tuple((int(j), round(float(row[j]), 4)) for j in best) for row, best in zip(cosines, order, strict=True)
    )
