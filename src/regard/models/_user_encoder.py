"""What is known of a user as a sequence: anyone, the fields of the profile, then the items chosen, oldest first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.core.protocols.recommender import UserBatch
from regard.layers.dropout import Dropout
from regard.layers.positions._base import PositionScheme

HARMONICS = 3  # of the calendar: how finely what is chosen may change with the time


class ProfileEncoder(nn.Module):
    """Profiles (b p) -> a vector for each field (b f d): its features times its own matrix. While training, fields
    count as not told at times, so that a profile can be told in part, and no user is known by it alone."""

    def __init__(self, widths: Sequence[int], dim: int, *, dropout: float) -> None:
        super().__init__()
        self.widths, self.dropout = list(widths), dropout
        self.matrices = nn.ModuleList(nn.Linear(width, dim) for width in widths)

    def drop_fields(self, profiles: Tensor) -> Tensor:
        """(b p) -> the same; while training with some fields not told."""
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
    """Times (b t) in days and ratings (b t) -> (b t d): how long since the last choice, when, and how it was liked."""

    def __init__(self, dim: int, *, days: float) -> None:
        super().__init__()
        self.days = max(days, 1.0)
        self.linear = nn.Linear(4 + 2 * HARMONICS, dim)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, times: Tensor, ratings: Tensor) -> Tensor:
        before = torch.cat([times[:, :1], times[:, :-1]], dim=1)
        gap = torch.log1p((times - before).clamp_min(0) * 86_400) / 8
        phase = times / self.days
        angles = phase[..., None] * (math.pi * torch.arange(1, HARMONICS + 1, device=times.device))
        features = [torch.stack([gap, phase, ratings, ratings.abs()], dim=-1), angles.sin(), angles.cos()]
        added: Tensor = self.linear(torch.cat(features, dim=-1))
        return added


class UserEncoder(nn.Module):
    """Users and the vectors of what they chose (b t d) -> (b 1+f+t d)."""

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
        chosen = items * self.scale + self.moments(users.times, users.ratings)
        anyone = self.anyone.expand(len(chosen), 1, -1)
        parts = [anyone, self.fields(users.profiles), self.position(chosen)]
        known: Tensor = self.dropout(torch.cat([part for part in parts if part.shape[1]], dim=1))
        return known
