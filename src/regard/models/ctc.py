"""Connectionist temporal classification: Graves et al. 2006, the comparison without attention.

    frames -> pyramidal BiLSTM -> distribution over labels and blank for every state

A transcript has the summed probability of all label sequences that give it after repeated labels are merged and blanks
are removed. The probability of the next token after a prefix follows from sums over prefixes (Graves et al. 2006,
section 3.2), so that CTC is a `Decoder`: every decoding strategy can use it, and its scores are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import ctc_loss, linear, pad

from regard.core.config import check_fields
from regard.core.data_specs import SpecialTokens, SpeechSpec
from regard.core.protocols.speech import SpeechBatch, SpeechFrames
from regard.core.state_tree import Shared
from regard.layers.pyramid_encoder import PyramidEncoder
from regard.layers.recurrent import repeat_per_hypothesis

IMPOSSIBLE = -1e30  # log probability of an impossible event; finite, so that differences are defined
MIN_LOGIT = -1e4


@dataclass(frozen=True)
class Config:
    """Settings; the encoder is that of `las`."""

    encoder: int = 256  # width of the encoder per direction
    stack: int = 1  # adjacent frames that are joined before the first layer
    pyramid_layers: int = 2  # layers after the first; each halves the number of states
    dropout: float = 0.2  # dropout of the states

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("encoder", "stack"), at_least_0=("pyramid_layers",), probability=("dropout",))


PRESETS = {"small": Config(encoder=96, stack=2, pyramid_layers=1)}  # small: for the built-in digits
TINY = Config(encoder=8, stack=2, pyramid_layers=0, dropout=0.1)  # for tests


class LabelProbabilities(NamedTuple):
    """The label distribution of every state of the encoder."""

    log_probs: Tensor  # (b s v), float64
    lengths: Tensor  # (b)

    def _join(self, other: LabelProbabilities, *, shared: bool) -> LabelProbabilities:
        """Implements core.state_tree: shorter recordings are padded on the right."""
        width = max(self.log_probs.shape[1], other.log_probs.shape[1])
        log_probs = [pad(x, (0, 0, 0, width - x.shape[1])) for x in (self.log_probs, other.log_probs)]
        return LabelProbabilities(torch.cat(log_probs), torch.cat([self.lengths, other.lengths]))


class PathSums(NamedTuple):
    """Log probabilities of all paths over the first t states that give the prefix, for t = 0 … s."""

    label: Tensor  # (r s+1) paths that end in the last label
    blank: Tensor  # (r s+1) paths that end in a blank

    @property
    def total(self) -> Tensor:
        """(r s+1)."""
        return torch.logaddexp(self.label, self.blank)

    def _join(self, other: PathSums, *, shared: bool) -> PathSums:
        """Implements core.state_tree."""
        width = max(self.label.shape[1], other.label.shape[1])
        parts = (
            torch.cat([pad(x, (0, width - x.shape[1]), value=IMPOSSIBLE) for x in pair])
            for pair in zip(self, other, strict=True)
        )
        return PathSums(*parts)


class CTCState(NamedTuple):
    """The prefix of each hypothesis; the label distributions, one row per recording."""

    paths: PathSums
    last: Tensor  # (r) the last label
    prefix_score: Tensor  # (r) log probability of all transcripts that start with the prefix
    source: Shared[LabelProbabilities]


class LabelReadout(nn.Module):
    """States (… d) -> log probabilities of labels and blank. The features of the decoder are log p already."""

    def __init__(self, dim: int, vocab_size: int, special_tokens: SpecialTokens) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, dim))
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.unused = [special_tokens.bos, special_tokens.eos]
        nn.init.xavier_uniform_(self.weight)

    def label_log_probs(self, states: Tensor) -> Tensor:
        """(b s d) -> (b s v); BOS and EOS are impossible."""
        logits = linear(states, self.weight, self.bias).float()
        is_unused = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
        is_unused[self.unused] = True
        return logits.masked_fill(is_unused, MIN_LOGIT).log_softmax(dim=-1)

    def forward(self, features: Tensor) -> Tensor:
        """(… v) -> (… v): log p are logits."""
        return features

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """Log p (n v) and labels (n) -> the sum of -log p(label)."""
        return -features.gather(1, labels[:, None]).sum()


class CTC(nn.Module):
    """The complete model, a `SpeechModel` in the sense of core.protocols.speech; the padding token is the blank."""

    def __init__(self, config: Config, sizes: SpeechSpec) -> None:
        super().__init__()
        self.encoder = PyramidEncoder(
            sizes.num_bands,
            config.encoder,
            stack=config.stack,
            pyramid_layers=config.pyramid_layers,
            dropout=config.dropout,
        )
        self.reduction, self.special_tokens = self.encoder.reduction, sizes.special_tokens
        self.readout = LabelReadout(2 * config.encoder, sizes.vocab_size, sizes.special_tokens)

    def start(self, source: SpeechFrames) -> CTCState:
        states, lengths = self.encoder(source.frames, source.lengths)
        log_probs = self.readout.label_log_probs(states).double()  # (b s v)
        only_blanks = pad(log_probs[:, :, self.special_tokens.pad].cumsum(dim=1), (1, 0))  # (b s+1)
        paths = PathSums(torch.full_like(only_blanks, IMPOSSIBLE), only_blanks)
        last = torch.full((len(states),), self.special_tokens.bos, device=states.device)
        return CTCState(paths, last, log_probs.new_zeros(len(states)), Shared(LabelProbabilities(log_probs, lengths)))

    def features(self, tokens: Tensor, state: CTCState) -> tuple[Tensor, CTCState]:
        log_probs, lengths = (repeat_per_hypothesis(x, len(tokens)) for x in state.source.value)
        in_length = torch.arange(log_probs.shape[1], device=lengths.device) < lengths[:, None]
        log_probs = log_probs.masked_fill(~in_length[..., None], IMPOSSIBLE)
        steps = []
        for token in tokens.unbind(1):
            state = self._extend(token, state, log_probs)
            steps.append(self._next_log_probs(state, log_probs, lengths))
        return torch.stack(steps, dim=1), state  # (r t v)

    def forward(self, tokens: Tensor, state: CTCState) -> tuple[Tensor, CTCState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (r t v)

    def _extend(self, token: Tensor, state: CTCState, log_probs: Tensor) -> CTCState:
        """Append a token (r) to each prefix; BOS changes nothing."""
        is_start = token == self.special_tokens.bos
        label = log_probs.gather(2, token[:, None, None].expand(-1, log_probs.shape[1], 1))[..., 0]  # (r s)
        blank = log_probs[..., self.special_tokens.pad]
        before = torch.where((token == state.last)[:, None], state.paths.blank, state.paths.total)[:, :-1]
        by_label = _accumulate(before, label)
        paths = PathSums(by_label, _accumulate(by_label[:, :-1], blank))
        score = torch.logsumexp(before + label, dim=1)
        sums = PathSums(
            *(torch.where(is_start[:, None], old, new) for old, new in zip(state.paths, paths, strict=True))
        )
        return CTCState(
            sums,
            torch.where(is_start, state.last, token),
            torch.where(is_start, state.prefix_score, score),
            state.source,
        )

    def _next_log_probs(self, state: CTCState, log_probs: Tensor, lengths: Tensor) -> Tensor:
        """Log p (r v) of each next token after the prefix; EOS: the transcript is the prefix."""
        total = state.paths.total
        scores = torch.logsumexp(total[:, :-1, None] + log_probs, dim=1)  # (r v)
        last = state.last[:, None]
        label = log_probs.gather(2, last[..., None].expand(-1, log_probs.shape[1], 1))[..., 0]
        repeated = torch.logsumexp(state.paths.blank[:, :-1] + label, dim=1)  # a blank separates equal labels
        scores = scores.scatter(1, last, repeated[:, None])
        columns = torch.tensor([self.special_tokens.pad, self.special_tokens.bos], device=scores.device)
        scores = scores.index_fill(1, columns, IMPOSSIBLE)
        ended = total.gather(1, lengths[:, None])
        scores = scores.scatter(1, torch.full_like(last, self.special_tokens.eos), ended)
        return (scores - state.prefix_score[:, None]).clamp(MIN_LOGIT, 0.0).float()

    def loss(self, batch: SpeechBatch, *, pad: int, smoothing: float = 0.0) -> Tensor:
        """Return -log p of the transcripts, summed; a transcript that needs more states than there are has loss 0."""
        states, lengths = self.encoder(batch.source.frames, batch.source.lengths)
        labels, label_lengths = batch.target.tokens[:, 1:], batch.target.lengths - 2  # without BOS and EOS
        log_probs = self.readout.label_log_probs(states)
        return ctc_loss(
            log_probs.transpose(0, 1), labels, lengths, label_lengths, blank=pad, reduction="sum", zero_infinity=True
        )


def _accumulate(before: Tensor, step: Tensor) -> Tensor:
    """Solve x(t) = (x(t-1) + before(t-1)) · step(t), x(0) = 0, in log space: (r s), (r s) -> (r s+1)."""
    product = step.cumsum(dim=1)
    shifted = pad(product, (1, 0))[:, :-1]
    sums = product + torch.logcumsumexp(before - shifted, dim=1)
    return pad(sums, (1, 0), value=IMPOSSIBLE)


def build(config: Config, sizes: SpeechSpec) -> CTC:
    """Return a model for the given settings and data spec."""
    return CTC(config, sizes)
