"""The laws a decoder must keep, checked on any model: `regard check RUN`, and contract tests over every model.

1 cuts: however a sequence is cut into chunks, the logits are the same.  2 padding: batched = single.
3 two paths: the fast kernels = the definition.  5 causality: no output depends on a later token.
6 search: beam 1 = greedy, and every hypothesis has its teacher-forced score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.attend import Attend, fold, unfold
from regard.attention.masks import Mask
from regard.core.protocols import Hypothesis, Padded
from regard.core.sizes import Marks, Text
from regard.core.tree import select_sources
from regard.decoding import beam, greedy

CLOSE = 2e-4  # logits of float32 models of a dozen layers agree to about this much


class Verdict(NamedTuple):
    """What was found about one law."""

    law: str
    kept: bool
    detail: str


class Trial(NamedTuple):
    """Something to run a model on."""

    source: Padded
    target: Tensor  # (b t) tokens, no padding
    marks: Marks


def trial(sizes: Text, *, rows: int = 3, length: int = 9, seed: int = 0) -> Trial:
    """Random sentences of different lengths."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(2, min(length, sizes.longest - 3))  # room for padding and a longer output
    lengths = torch.randint(1, longest + 1, (rows,), generator=generator)
    lengths[0] = longest
    first = max(vars(sizes.marks).values()) + 1
    tokens = torch.randint(first, sizes.source, (rows, longest), generator=generator)
    tokens = tokens.where(torch.arange(longest) < lengths[:, None], sizes.marks.pad)
    target = torch.randint(first, sizes.target, (rows, longest), generator=generator)
    target[:, 0] = sizes.marks.start
    return Trial(Padded(tokens, lengths), target, sizes.marks)


def check(model: Any, sizes: Text) -> list[Verdict]:
    """Every law on one model, on random sentences."""
    was, given = model.training, trial(sizes)
    model.eval()
    try:
        return [law(model, given) for law in (cuts, padding, two_paths, causality, search)]
    finally:
        model.train(was)


@torch.no_grad()
def cuts(model: Any, given: Trial) -> Verdict:
    """Law 1."""
    whole, _ = model(given.target, model.start(given.source))
    worst = 0.0
    for size in (1, 2, 5):
        state, parts = model.start(given.source), []
        for chunk in given.target.split(size, dim=1):
            logits, state = model(chunk, state)
            parts.append(logits)
        worst = max(worst, _gap(torch.cat(parts, dim=1), whole))
    return _verdict("1 cuts do not matter", worst)


@torch.no_grad()
def padding(model: Any, given: Trial) -> Verdict:
    """Law 2."""
    whole, _ = model(given.target, model.start(given.source))
    worst = 0.0
    for row, length in enumerate(given.source.lengths.tolist()):
        alone = Padded(given.source.tokens[row : row + 1, :length], given.source.lengths[row : row + 1])
        logits, _ = model(given.target[row : row + 1], model.start(alone))
        worst = max(worst, _gap(logits, whole[row : row + 1]))
    more = nn.functional.pad(given.source.tokens, (0, 3), value=given.marks.pad)
    logits, _ = model(given.target, model.start(Padded(more, given.source.lengths)))
    return _verdict("2 padding does not matter", max(worst, _gap(logits, whole)))


@torch.no_grad()
def two_paths(model: Any, given: Trial) -> Verdict:
    """Law 3."""
    fast, _ = model(given.target, model.start(given.source))
    with by_definition(model):
        plain, _ = model(given.target, model.start(given.source))
    return _verdict("3 fast kernels = definition", _gap(fast, plain))


def causality(model: Any, given: Trial) -> Verdict:
    """Law 5: changing the last token leaves every earlier output as it was, to the bit."""
    with torch.no_grad():
        before, _ = model(given.target, model.start(given.source))
        changed = given.target.clone()
        changed[:, -1] = torch.where(changed[:, -1] == changed.max(), changed.min(), changed.max())
        after, _ = model(changed, model.start(given.source))
    return _verdict("5 no looking ahead", _gap(before[:, :-1], after[:, :-1]), bound=0.0)


def search(model: Any, given: Trial) -> Verdict:
    """Law 6."""
    limits = given.source.lengths + 2  # a little longer than the source, within what the model was made for
    state = model.start(given.source)
    straight = greedy.decode(model, state, marks=given.marks, limits=limits, config=greedy.Config())
    narrow = beam.decode(model, state, marks=given.marks, limits=limits, config=beam.Config(width=1))
    if [best[0].tokens for best in straight] != [best[0].tokens for best in narrow]:
        return Verdict("6 search", False, "beam 1 and greedy give different outputs")
    wide = beam.decode(model, state, marks=given.marks, limits=limits, config=beam.Config(width=4, nbest=4))
    worst = 0.0
    for found in (straight, wide):
        for row, hypotheses in enumerate(found):
            alone = select_sources(state, torch.tensor([row]))
            worst = max([worst, *(abs(forced(model, alone, one, given.marks) - one.score) for one in hypotheses)])
    return _verdict("6 search: beam 1 = greedy, scores = teacher-forced scores", worst, bound=1e-3)


@torch.no_grad()
def forced(model: Any, state: Any, one: Hypothesis, marks: Marks) -> float:
    """The teacher-forced score of a hypothesis: the sum of log p over its tokens and the end mark."""
    tokens = torch.tensor([[marks.start, *one.tokens, marks.end]])
    logits, _ = model(tokens[:, :-1], state)
    return float(logits.log_softmax(dim=-1).gather(2, tokens[:, 1:, None]).sum())


@contextmanager
def by_definition(model: nn.Module) -> Iterator[None]:
    """Inside, every attention of the model is computed as weigh · values, with no fast kernel."""
    changed = [module for module in model.modules() if isinstance(module, Attend)]
    for module in changed:
        module.forward = _definition(module)  # type: ignore[method-assign]  # taken back below
    try:
        yield
    finally:
        for module in changed:
            del module.forward


def _definition(module: Attend) -> Callable[..., Tensor]:
    def forward(q: Tensor, k: Tensor, v: Tensor, mask: Mask = Mask()) -> Tensor:
        if q.shape[0] != k.shape[0]:
            return unfold(module.weigh(fold(q, k, mask), k, mask) @ v, q.shape[0])
        mixed: Tensor = module.weigh(q, k, mask) @ v
        return mixed

    return forward


def _gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max()) if a.numel() else 0.0


def _verdict(law: str, worst: float, *, bound: float = CLOSE) -> Verdict:
    return Verdict(law, worst <= bound, f"largest difference {worst:.1e}")
