"""Output layers over pixel levels: categorical, or a discretized mixture of logistics (Salimans et al. 2017, section
2.1).

A position has one channel, or all channels of a pixel. In the latter case channels are predicted one after the other,
each conditioned on the previous ones, so the likelihood is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from regard.layers.linear_prediction import LinearPrediction
from regard.layers.readout import Readout

MIN_LOG_SCALE = -7.0  # log of the smallest scale of a logistic, for brightness in -1 … 1


class LevelReadout(nn.Module):
    """Base class of output layers over levels."""

    def __init__(self, levels: int, channels: int) -> None:
        super().__init__()
        self.levels, self.channels = levels, channels

    def logits(self, features: Tensor, previous_channels: Tensor) -> Tensor:
        """Features (n d) and the levels (n j) of the first j channels of a position -> logits (n levels) of the next
        channel."""
        raise NotImplementedError

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """Features (n d) and levels (n) or (n channels) -> the sum of -log p."""
        raise NotImplementedError

    def forward(self, features: Tensor) -> Tensor:
        """(… d) -> logits (… levels) of the first channel."""
        flat = features.flatten(0, -2)
        return self.logits(flat, flat.new_zeros(len(flat), 0, dtype=torch.long)).view(*features.shape[:-1], -1)


class Categorical(LevelReadout):
    """One logit per level; embeddings of the previous channels are added to the features."""

    def __init__(self, dim: int, *, levels: int, channels: int) -> None:
        super().__init__(levels, channels)
        self.each = nn.ModuleList(Readout(dim, levels) for _ in range(channels))
        self.before = nn.ModuleList(nn.Embedding(levels, dim) for _ in range(channels - 1))
        for readout in self._readouts():
            nn.init.normal_(readout.weight, std=0.5 * dim**-0.5)
            nn.init.zeros_(readout.bias)
        for table in self.before:
            nn.init.normal_(table.weight, std=0.1)  # type: ignore[arg-type]  # the weight of an nn.Embedding

    def logits(self, features: Tensor, previous_channels: Tensor) -> Tensor:
        logits: Tensor = self.each[previous_channels.shape[1]](self._condition_on(features, previous_channels))
        return logits

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        labels = labels.view(len(labels), -1)
        parts = []
        for channel, readout in enumerate(self._readouts()):
            conditioned, values = self._condition_on(features, labels[:, :channel]), labels[:, channel].contiguous()
            parts.append(readout.loss(conditioned, values, smoothing=smoothing))
        return torch.stack(parts).sum()

    def _condition_on(self, features: Tensor, previous_channels: Tensor) -> Tensor:
        for table, values in zip(self.before, previous_channels.unbind(1), strict=False):
            features = features + table(values)
        return features

    def _readouts(self) -> list[Readout]:
        return [readout for readout in self.each if isinstance(readout, Readout)]


class MixtureParameters(NamedTuple):
    """Parameters of mixtures of logistics at n positions."""

    log_weights: Tensor  # (n k)
    means: Tensor  # (n c k)
    scales: Tensor  # (n c k) their logarithms
    coefficients: Tensor  # (n pairs k) of earlier channels
    predicted: Tensor  # (n c) or (n 0): the linear prediction of each channel, without the part of earlier channels


class LogisticMixture(LevelReadout):
    """A mixture of logistic distributions over brightness, discretized into levels; the means depend on the previous
    channels."""

    def __init__(self, dim: int, *, levels: int, channels: int, mixtures: int = 10) -> None:
        super().__init__(levels, channels)
        self.mixtures, self.pairs = mixtures, channels * (channels - 1) // 2
        self.numbers = nn.Linear(dim, mixtures * (1 + 2 * channels + self.pairs))
        nn.init.normal_(self.numbers.weight, std=0.2 * dim**-0.5)
        nn.init.zeros_(self.numbers.bias)
        with torch.no_grad():  # the logistics start evenly spread over the brightness range
            spread = torch.linspace(-0.9, 0.9, mixtures)
            self.numbers.bias.view(-1, mixtures)[1 : 1 + channels] = spread
            self.numbers.bias.view(-1, mixtures)[1 + channels : 1 + 2 * channels] = -1.5

    def logits(self, features: Tensor, previous_channels: Tensor) -> Tensor:
        mixture = self._mixture_parameters(features)
        log_weights, brightness = mixture.log_weights, self._brightness(previous_channels)  # (n j)
        for channel in range(previous_channels.shape[1]):  # posterior of the mixture component given these channels
            mean = self._conditional_mean(mixture, brightness, channel=channel)
            log_weights = log_weights + self._log_p(
                previous_channels[:, channel, None], mean, mixture.scales[:, channel]
            )
        mean = self._conditional_mean(mixture, brightness, channel=previous_channels.shape[1])
        levels = torch.arange(self.levels, device=features.device)[None, :, None]  # (1 levels 1)
        scales = mixture.scales[:, previous_channels.shape[1], None]
        level_log_p = self._log_p(levels, mean[:, None], scales)  # (n levels k)
        return (log_weights.log_softmax(-1)[:, None] + level_log_p).logsumexp(-1)

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        labels = labels.view(len(labels), -1)
        mixture = self._mixture_parameters(features)
        total, brightness = mixture.log_weights.log_softmax(-1), self._brightness(labels)
        for channel in range(self.channels):
            mean = self._conditional_mean(mixture, brightness, channel=channel)
            total = total + self._log_p(labels[:, channel, None], mean, mixture.scales[:, channel])
        return -total.logsumexp(-1).sum()

    def _mixture_parameters(self, features: Tensor) -> MixtureParameters:
        """(n d) -> the parameters at n positions."""
        c = self.channels
        parts = self.numbers(features).view(len(features), -1, self.mixtures).split([1, c, c, self.pairs], dim=1)
        scales, coefficients = parts[2].clamp(min=MIN_LOG_SCALE), parts[3].tanh()
        return MixtureParameters(parts[0][:, 0], parts[1], scales, coefficients, features[:, :0])

    def _conditional_mean(self, mixture: MixtureParameters, brightness: Tensor, *, channel: int) -> Tensor:
        """Means (n k) of a channel, given the brightness (n j) of the previous channels."""
        first = channel * (channel - 1) // 2
        mean = mixture.means[:, channel]
        for previous in range(channel):
            mean = mean + mixture.coefficients[:, first + previous] * brightness[:, previous, None]
        return mean

    def _brightness(self, values: Tensor) -> Tensor:
        """Levels -> -1 … 1."""
        return values.to(self.numbers.weight.dtype) * (2 / (self.levels - 1)) - 1

    def _log_p(self, values: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        """Return the log probability of levels under logistics: the mass between the midpoints to the neighboring
        levels. The darkest and the brightest level get the whole tail.

        σ(a) - σ(b) = σ(a) σ(-b) (1 - e^(b - a)), which is accurate in the tails too.
        """
        half, narrow = 1 / (self.levels - 1), torch.exp(-scale)
        middle = self._brightness(values) - mean
        above, below = logsigmoid((middle + half) * narrow), logsigmoid((half - middle) * narrow)
        inner = torch.log(-torch.expm1(-2 * half * narrow))
        darkest, brightest = values == 0, values == self.levels - 1
        zero = torch.zeros((), dtype=mean.dtype, device=mean.device)
        return (
            torch.where(brightest, zero, above)
            + torch.where(darkest, zero, below)
            + torch.where(darkest | brightest, zero, inner)
        )


class ResidualMixture(LogisticMixture):
    """A mixture of logistics over the error of a linear prediction, in units of its standard deviation.

    The last features of a position are the linear prediction of each channel (layers/linear_prediction.py). The
    mixture starts as the distribution of the errors: all means are 0, and the scales differ, as errors have heavy
    tails. Coefficients multiply the errors of the previous channels.
    """

    def __init__(
        self, dim: int, *, levels: int, channels: int, prediction: LinearPrediction, mixtures: int = 10
    ) -> None:
        super().__init__(dim, levels=levels, channels=channels, mixtures=mixtures)
        self.prediction = prediction
        with torch.no_grad():
            bias = self.numbers.bias.view(-1, mixtures)
            bias[1 : 1 + channels] = 0.0
            bias[1 + channels : 1 + 2 * channels] = torch.linspace(-2.5, 0.5, mixtures)

    def _mixture_parameters(self, features: Tensor) -> MixtureParameters:
        features, predicted = features[:, : -self.channels], features[:, -self.channels :].float()
        log_weights, means, log_scales, coefficients, _ = super()._mixture_parameters(features)
        std = self.prediction.get_buffer("std")[:, None]
        scales = (log_scales.float() + std.log()).clamp(min=MIN_LOG_SCALE)
        return MixtureParameters(log_weights.float(), means.float() * std, scales, coefficients.float(), predicted)

    def _conditional_mean(self, mixture: MixtureParameters, brightness: Tensor, *, channel: int) -> Tensor:
        coupling, std = self.prediction.get_buffer("coupling"), self.prediction.get_buffer("std")
        first = channel * (channel - 1) // 2
        linear = mixture.predicted[:, channel] + brightness[:, :channel] @ coupling[channel, :channel]
        mean = mixture.means[:, channel] + linear[:, None]
        for previous in range(channel):
            expected = mixture.predicted[:, previous] + brightness[:, :previous] @ coupling[previous, :previous]
            error = (brightness[:, previous] - expected) * (std[channel] / std[previous])
            mean = mean + mixture.coefficients[:, first + previous] * error[:, None]
        return mean
