"""What a model knows before it has read anything: its positional encodings and its embeddings, as pictures."""

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
    """What belongs to a model rather than to an input: made once, used for every input."""

    positions: Positions | None
    embeddings: tuple[Embeddings, ...]


def collect_tables(model: nn.Module, vocabularies: tuple[Vocabulary, ...]) -> ParameterTables:
    """Both pictures of a model."""
    return ParameterTables(positions(model), embeddings(model, vocabularies))


@torch.no_grad()
def positions(model: nn.Module) -> Positions | None:
    """The first position scheme that adds something to the features; None where places live inside the score."""
    for scheme in model.modules():
        if not isinstance(scheme, PositionScheme):
            continue
        count = min(MAX_POSITIONS, scheme.longest)
        device = next(model.parameters()).device
        added = scheme.encode(torch.arange(count, device=device), count)
        if added is not None and added.dim() == 2:
            table = np.asarray(added.cpu().numpy(), dtype=np.float32)
            return Positions(type(scheme).__module__.rpartition(".")[2], table, by_distance(table))
    return None


def by_distance(table: FloatArray) -> FloatArray:
    """(n d) -> (n,): the mean dot product of two rows by how far apart they stand."""
    products = table @ table.T
    return np.array([products.diagonal(n).mean() for n in range(len(table))], dtype=np.float32)


@torch.no_grad()
def embeddings(model: nn.Module, vocabularies: tuple[Vocabulary, ...]) -> tuple[Embeddings, ...]:
    """The embeddings of each vocabulary in two dimensions, by PCA and t-SNE; nothing where scikit-learn is missing."""
    layers = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    spaces = []
    for number, vocabulary in enumerate(vocabularies):
        fitting = [table for table in layers if table.num_embeddings == vocabulary.size]
        if not fitting or len(vocabulary.tokens) < NUM_NEIGHBOURS:
            continue
        table = fitting[min(number, len(fitting) - 1)]  # both vocabularies may have one size, or share one table
        vectors = table.weight[list(vocabulary.tokens)].float().cpu().numpy()
        spaces += [
            Embeddings(f"{vocabulary.name}, {method}", method, vocabulary.labels, points, neighbours(vectors))
            for method, points in project_2d(vectors).items()
        ]
    return tuple(spaces)


def neighbours(vectors: FloatArray) -> tuple[tuple[tuple[int, float], ...], ...]:
    """(n d) -> for each row the nearest others by cosine."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    order = np.argsort(-cosines, axis=1)[:, :NUM_NEIGHBOURS]
    return tuple(
        tuple((int(j), round(float(row[j]), 4)) for j in best) for row, best in zip(cosines, order, strict=True)
    )
