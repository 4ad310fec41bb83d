"""User representation as a sequence: a learned constant, the profile fields, then the history items, oldest first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.core.protocols.recommender import UserBatch
from regard.layers.dropout import Dropout
from regard.layers.positions._base import PositionScheme

HARMONICS = 3  # Fourier terms of the time, for preferences that change with it


class ProfileEncoder(nn.Module):
    """Profiles (b p) -> one vector per field (b f d): its features times a matrix of the field. In training fields are
    set to unknown at random, so that partial profiles are supported and no user is identified by the profile."""

    def __init__(self, widths: Sequence[int], dim: int, *, dropout: float) -> None:
        super().__init__()
        self.widths, self.dropout = list(widths), dropout
        self.matrices = nn.ModuleList(nn.Linear(width, dim) for width in widths)

    def drop_fields(self, profiles: Tensor) -> Tensor:
        """(b p) -> the same; in training with some fields set to unknown."""
        if not (self.training and self.dropout and self.widths):
            return profiles
        parts = []
        for part in profiles.split(self.widths, dim=1):
            unknown = torch.zeros_like(part)
            unknown[:, -1] = 1.0
            hidden = torch.rand(len(part), 1, device=part.device) < self.dropout
            parts.append(torch.where(hidden, unknown, part))
        return torch.cat(parts, dim=1)

    def forward(self, profiles: Tensor) -> Tensor:
        if not self.widths:
            return profiles.new_zeros(len(profiles), 0, 0)
        parts = profiles.split(self.widths, dim=1)
        return torch.stack([layer(part) for layer, part in zip(self.matrices, parts, strict=True)], dim=1)


class EventFeatures(nn.Module):
    """Times (b t) in days and ratings (b t) -> (b t d): time since the previous event, date and rating."""

    def __init__(self, dim: int, *, days: float) -> None:
        super().__init__()
        self.days = max(days, 1.0)
        self.linear = nn.Linear(4 + 2 * HARMONICS, dim)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, times: Tensor, ratings: Tensor) -> Tensor:
        previous = torch.cat([times[:, :1], times[:, :-1]], dim=1)
        gap = torch.log1p((times - previous).clamp_min(0) * 86_400) / 8
        phase = times / self.days
        angles = phase[..., None] * (math.pi * torch.arange(1, HARMONICS + 1, device=times.device))
        features = [torch.stack([gap, phase, ratings, ratings.abs()], dim=-1), angles.sin(), angles.cos()]
        encoded: Tensor = self.linear(torch.cat(features, dim=-1))
        return encoded


class UserEncoder(nn.Module):
    """Users and the embeddings of their history items (b t d) -> (b 1+f+t d)."""

    def __init__(
        self,
        profile_encoder: ProfileEncoder,
        event_features: EventFeatures,
        position: PositionScheme,
        *,
        dim: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.fields, self.moments, self.position = profile_encoder, event_features, position
        self.anyone = nn.Parameter(torch.randn(dim) * 0.02)
        self.dropout, self.scale = Dropout(dropout), math.sqrt(dim)

    def forward(self, users: UserBatch, items: Tensor) -> Tensor:
        history = items * self.scale + self.moments(users.times, users.ratings)
        constant = self.anyone.expand(len(history), 1, -1)
        parts = [constant, self.fields(users.profiles), self.position(history)]
        encoded: Tensor = self.dropout(torch.cat([part for part in parts if part.shape[1]], dim=1))
        return encoded
