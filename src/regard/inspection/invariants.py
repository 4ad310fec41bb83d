"""The laws a model must keep, checked on any run: `regard check RUN`, and contract tests over every model.

For every task: 2 answers in a batch = single answers.  3 the fast kernels = the definition.  4 looking changes nothing,
and rows of weights sum to one or are empty. For decoders also: 1 cuts: however a sequence is cut into chunks, the
logits are the same.  2 padding.  5 causality: no output depends on a later token.  6 search: beam 1 = greedy, and every
hypothesis has its teacher-forced score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.attend import fold_hypotheses, unfold_hypotheses
from regard.attention.record import attention_modules, record
from regard.core.data_specs import MusicSpec, Seq2SeqSpec, SpecialTokens
from regard.core.errors import RegardError
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.protocols import Decoder, Hypothesis, Padded, State
from regard.core.state_tree import map_tensors, select_sources
from regard.core.task import Prediction, Task
from regard.decoding.strategy import DecodingStrategy, build
from regard.inspection.call_recorder import AttentionCall
from regard.inspection.collect import default_options

LOGIT_TOLERANCE = 2e-4  # logits of float32 models of a dozen layers agree to about this much
SCORE_TOLERANCE = 1e-3  # and sums of log probabilities over an output to this much
EXAMPLES = 3  # inputs that are tried
MAX_RANDOM_TOKENS = 9  # tokens of a random sequence
MAX_DECODED_TOKENS = 24  # tokens of an answer

PredictFn = Callable[[Sequence[Any]], list[Prediction]]  # inputs -> the best answer to each


class CheckResult(NamedTuple):
    """What was found about one law."""

    invariant: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class ShortDecoding(DecodingStrategy):
    """The same decoder, whose outputs are short: a law is kept, or broken, in the first few tokens."""

    def __call__(self, model: Decoder, state: State, *, limits: Tensor, **more: Any) -> list[list[Hypothesis]]:
        return super().__call__(model, state, limits=limits.clamp(max=MAX_DECODED_TOKENS), **more)


class DecoderInputs(NamedTuple):
    """Something to run a decoder on."""

    source: Any  # what the model's `start` takes
    target: Tensor  # (b t) tokens, no padding
    special_tokens: SpecialTokens


def check(task: Task, model: nn.Module, decoding: DecodingStrategy | None, *, options: Any = None) -> list[CheckResult]:
    """Every law that applies, on the task's examples and, where the data is sequences, on random ones."""
    inputs = [task.parse_input(text) for text in task.examples[:EXAMPLES]]
    request = default_options(task) if options is None else options
    decoding = None if decoding is None else ShortDecoding(decoding.name, decoding.config)
    verdicts: list[CheckResult] = []
    with eval_mode(model) as device:
        if inputs:
            shown = task.inspect(model, inputs[0], request, decoding)

            def ask(several: Sequence[Any]) -> list[Prediction]:
                return [answers[0] for answers in task.predict(model, several, request, decoding)]

            verdicts += [
                batch_invariance(ask, inputs),
                prediction_kernel_equivalence(ask, inputs, model),
                recording_invariance(model, shown),
            ]
        if all(hasattr(model, name) for name in ("start", "features", "readout")):
            if isinstance(task.spec, Seq2SeqSpec | MusicSpec):
                verdicts += check_decoder(model, random_inputs(task.spec), device)
            elif inputs and hasattr(task.spec, "special_tokens"):  # a search needs to know what ends a sequence
                verdicts += check_decoder(model, record_decoder_inputs(model, shown, task.spec.special_tokens), device)
    if not verdicts:
        raise RegardError("there is nothing to check the model on; the task has no examples")
    return sorted(verdicts, key=lambda verdict: verdict.invariant[0])


def check_decoder(model: Any, inputs: DecoderInputs, device: torch.device | None = None) -> list[CheckResult]:
    """The laws of a decoder, in evaluation mode."""
    source, target = map_tensors((inputs.source, inputs.target), lambda x: x.to(device))
    inputs = DecoderInputs(source, target, inputs.special_tokens)
    laws = (chunking_invariance, padding_invariance, logit_kernel_equivalence, causality, search_consistency)
    return [law(model, inputs) for law in laws if law is not padding_invariance or isinstance(source, Padded)]


def random_inputs(
    sizes: Seq2SeqSpec | MusicSpec, *, rows: int = 3, length: int = MAX_RANDOM_TOKENS, seed: int = 0
) -> DecoderInputs:
    """Random sequences of different lengths."""
    before, after = (
        (sizes.source_vocab_size, sizes.target_vocab_size)
        if isinstance(sizes, Seq2SeqSpec)
        else (sizes.num_conditions, sizes.vocab_size)
    )
    generator = torch.Generator().manual_seed(seed)
    longest = max(2, min(length, sizes.max_length - 3))  # room for padding and a longer output
    lengths = torch.randint(1, longest + 1, (rows,), generator=generator)
    lengths[0] = longest
    first = sizes.special_tokens.first_regular_id
    tokens = torch.randint(first, before, (rows, longest), generator=generator)
    tokens = tokens.where(torch.arange(longest) < lengths[:, None], sizes.special_tokens.pad)
    target = torch.randint(first, after, (rows, longest), generator=generator)
    target[:, 0] = sizes.special_tokens.bos
    return DecoderInputs(Padded(tokens, lengths), target, sizes.special_tokens)


def record_decoder_inputs(model: nn.Module, inspectable: Inspectable, special_tokens: SpecialTokens) -> DecoderInputs:
    """What the replay of an example gives to a decoder: its source, and the tokens that it reads."""
    sources, chunks = list[Any](), list[Tensor]()
    usual: Any = model
    start, features = usual.start, usual.features

    def noted_start(source: Any) -> State:
        sources.append(source)
        return start(source)

    def noted_features(tokens: Tensor, state: State) -> tuple[Tensor, State]:
        chunks.append(tokens)
        read: tuple[Tensor, State] = features(tokens, state)
        return read

    vars(model).update(start=noted_start, features=noted_features)
    try:
        inspectable.replay()
    finally:
        del model.start, model.features
    return DecoderInputs(sources[-1], torch.cat(chunks, dim=1), special_tokens)


def batch_invariance(predict: PredictFn, inputs: Sequence[Any]) -> CheckResult:
    """Law 2 for any task. Each input comes first once: what is drawn at random may depend on the place in the batch."""
    turned = [[*inputs[i:], *inputs[:i]] for i in range(len(inputs))]
    pairs = [(predict(several)[0], predict(several[:1])[0]) for several in turned]
    return _agree("2 answers in a batch = single answers", pairs)


def prediction_kernel_equivalence(predict: PredictFn, inputs: Sequence[Any], model: nn.Module) -> CheckResult:
    """Law 3 for any task."""
    fast = predict(inputs)
    with reference_attention(model):
        return _agree("3 answers by fast kernels = by the definition", list(zip(fast, predict(inputs), strict=True)))


@torch.no_grad()
def recording_invariance(model: nn.Module, inspectable: Inspectable) -> CheckResult:
    """Law 4."""
    law = "4 looking changes nothing, rows sum to one or are empty"
    if not attention_modules(model):
        return CheckResult(law, True, "there is no attention to look at")
    plain = inspectable.replay()
    with record(model) as maps:
        seen = inspectable.replay()
    if not torch.equal(plain, seen):
        return CheckResult(law, False, f"looked at, the answers differ by {_gap(plain, seen):.1e}")
    sums = torch.cat([attention.weights.sum(dim=-1).flatten().float() for attention in maps.values()])
    return _verdict(law, float(torch.minimum((sums - 1).abs(), sums.abs()).max()))


def _agree(law: str, pairs: Sequence[tuple[Prediction, Prediction]]) -> CheckResult:
    """Answers agree if their scores do; without scores, if their texts are the same."""
    worst = 0.0
    for one, other in pairs:
        if one.score is not None and other.score is not None:
            worst = max(worst, abs(one.score - other.score))
        elif one.text != other.text:
            return CheckResult(law, False, f"{one.text!r} and {other.text!r}")
    return _verdict(law, worst, bound=SCORE_TOLERANCE)


@torch.no_grad()
def chunking_invariance(model: Any, inputs: DecoderInputs) -> CheckResult:
    """Law 1."""
    whole, _ = model(inputs.target, model.start(inputs.source))
    worst = 0.0
    for size in (1, 2, 5):
        state, parts = model.start(inputs.source), []
        for chunk in inputs.target.split(size, dim=1):
            logits, state = model(chunk, state)
            parts.append(logits)
        worst = max(worst, _gap(torch.cat(parts, dim=1), whole))
    return _verdict("1 cuts do not matter", worst)


@torch.no_grad()
def padding_invariance(model: Any, inputs: DecoderInputs) -> CheckResult:
    """Law 2."""
    whole, _ = model(inputs.target, model.start(inputs.source))
    worst = 0.0
    for row, length in enumerate(inputs.source.lengths.tolist()):
        alone = Padded(inputs.source.tokens[row : row + 1, :length], inputs.source.lengths[row : row + 1])
        logits, _ = model(inputs.target[row : row + 1], model.start(alone))
        worst = max(worst, _gap(logits, whole[row : row + 1]))
    more = nn.functional.pad(inputs.source.tokens, (0, 3), value=inputs.special_tokens.pad)
    logits, _ = model(inputs.target, model.start(Padded(more, inputs.source.lengths)))
    return _verdict("2 padding does not matter", max(worst, _gap(logits, whole)))


@torch.no_grad()
def logit_kernel_equivalence(model: Any, inputs: DecoderInputs) -> CheckResult:
    """Law 3."""
    fast, _ = model(inputs.target, model.start(inputs.source))
    with reference_attention(model):
        plain, _ = model(inputs.target, model.start(inputs.source))
    return _verdict("3 fast kernels = definition", _gap(fast, plain))


@torch.no_grad()
def causality(model: Any, inputs: DecoderInputs) -> CheckResult:
    """Law 5: changing the last token leaves every earlier output as it was, to the bit."""
    before, _ = model(inputs.target, model.start(inputs.source))
    changed = inputs.target.clone()
    changed[:, -1] = torch.where(changed[:, -1] == changed.max(), changed.min(), changed.max())
    after, _ = model(changed, model.start(inputs.source))
    return _verdict("5 no looking ahead", _gap(before[:, :-1], after[:, :-1]), bound=0.0)


def search_consistency(model: Any, inputs: DecoderInputs) -> CheckResult:
    """Law 6."""
    state, rows = model.start(inputs.source), len(inputs.target)
    # A little longer than the target, within what the model was made for.
    limits = torch.full((rows,), min(inputs.target.shape[1], MAX_RANDOM_TOKENS) + 2, device=inputs.target.device)

    def decode(decoding: DecodingStrategy) -> list[list[Hypothesis]]:
        return decoding(model, state, special_tokens=inputs.special_tokens, limits=limits)

    straight, narrow = decode(build("greedy")), decode(build("beam", width=1))
    if [best[0].tokens for best in straight] != [best[0].tokens for best in narrow]:
        return CheckResult("6 search", False, "beam 1 and greedy give different outputs")
    wide = decode(build("beam", beam_width=4, nbest=4))
    worst = 0.0
    for hypotheses in (straight, wide):
        for row, best in enumerate(hypotheses):
            alone = select_sources(state, limits.new_tensor([row]))
            worst = max(
                [
                    worst,
                    *(abs(teacher_forced_score(model, alone, one, inputs.special_tokens) - one.score) for one in best),
                ]
            )
    return _verdict("6 search: beam 1 = greedy, scores = teacher-forced scores", worst, bound=SCORE_TOLERANCE)


@torch.no_grad()
def teacher_forced_score(model: Any, state: State, hypothesis: Hypothesis, special_tokens: SpecialTokens) -> float:
    """The teacher-forced score of a hypothesis: the sum of log p over its tokens and the end mark."""
    device = next(model.parameters()).device
    tokens = torch.tensor([[special_tokens.bos, *hypothesis.tokens, special_tokens.eos]], device=device)
    logits, _ = model(tokens[:, :-1], state)
    return float(logits.log_softmax(dim=-1).gather(2, tokens[:, 1:, None]).sum())


@contextmanager
def reference_attention(model: nn.Module) -> Iterator[None]:
    """Inside, every attention of the model gives weigh · values, whatever its fast kernel gave. A hook sees to it, and
    a model that is watched by hooks is never decoded by an optimised copy."""
    hooks = [module.register_forward_hook(_define, with_kwargs=True) for module in attention_modules(model).values()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _define(module: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any], mixed: Tensor) -> Tensor:
    weigh: Any = module.weigh
    q, k, v, mask = AttentionCall.from_inputs(*inputs, **kwargs)
    if q.shape[0] != k.shape[0]:
        return unfold_hypotheses(weigh(fold_hypotheses(q, k, mask), k, mask) @ v, q.shape[0])
    defined: Tensor = weigh(q, k, mask) @ v
    return defined


def _gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max()) if a.numel() else 0.0


def _verdict(law: str, worst: float, *, bound: float = LOGIT_TOLERANCE) -> CheckResult:
    return CheckResult(law, worst <= bound, f"largest difference {worst:.1e}")
