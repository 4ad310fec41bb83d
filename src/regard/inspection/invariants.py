"""Invariants of models, checked by `regard check RUN` and by contract tests for every model.

For every task: 2 batched predictions equal single ones. 3 fast kernels equal the reference implementation. 4 recording
does not change outputs, and rows of weights sum to one or are empty. For decoders also: 1 chunking: the logits do not
depend on how a sequence is split into chunks. 2 padding. 5 causality: no output depends on a later token. 6 search:
beam search with width 1 equals greedy search, and every hypothesis has its teacher-forced score.
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

LOGIT_TOLERANCE = 2e-4  # difference of logits of float32 models with a dozen layers
SCORE_TOLERANCE = 1e-3  # difference of summed log probabilities of an output
EXAMPLES = 3  # inputs to check
MAX_RANDOM_TOKENS = 9  # length of random sequences
MAX_DECODED_TOKENS = 24  # length of predictions

PredictFn = Callable[[Sequence[Any]], list[Prediction]]  # inputs -> best prediction for each


class CheckResult(NamedTuple):
    """Result of checking one invariant."""

    invariant: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class ShortDecoding(DecodingStrategy):
    """The same strategy with short outputs: an invariant holds, or fails, within the first few tokens."""

    def __call__(self, model: Decoder, state: State, *, limits: Tensor, **arguments: Any) -> list[list[Hypothesis]]:
        return super().__call__(model, state, limits=limits.clamp(max=MAX_DECODED_TOKENS), **arguments)


class DecoderInputs(NamedTuple):
    """Inputs of a decoder."""

    source: Any  # argument of the model's `start`
    target: Tensor  # (b t) tokens, no padding
    special_tokens: SpecialTokens


def check(task: Task, model: nn.Module, decoding: DecodingStrategy | None, *, options: Any = None) -> list[CheckResult]:
    """Check all applicable invariants, on the task's examples and, for sequence tasks, on random inputs."""
    inputs = [task.parse_input(text) for text in task.examples[:EXAMPLES]]
    request = default_options(task) if options is None else options
    decoding = None if decoding is None else ShortDecoding(decoding.name, decoding.config)
    results: list[CheckResult] = []
    with eval_mode(model) as device:
        if inputs:
            inspectable = task.inspect(model, inputs[0], request, decoding)

            def predict(batch: Sequence[Any]) -> list[Prediction]:
                return [predictions[0] for predictions in task.predict(model, batch, request, decoding)]

            results += [
                batch_invariance(predict, inputs),
                prediction_kernel_equivalence(predict, inputs, model),
                recording_invariance(model, inspectable),
            ]
        if all(hasattr(model, name) for name in ("start", "features", "readout")):
            if isinstance(task.spec, Seq2SeqSpec | MusicSpec):
                results += check_decoder(model, random_inputs(task.spec), device)
            elif inputs and hasattr(task.spec, "special_tokens"):  # a search needs an end token
                results += check_decoder(
                    model, record_decoder_inputs(model, inspectable, task.spec.special_tokens), device
                )
    if not results:
        raise RegardError("the model cannot be checked: the task has no examples")
    return sorted(results, key=lambda result: result.invariant[0])


def check_decoder(model: Any, inputs: DecoderInputs, device: torch.device | None = None) -> list[CheckResult]:
    """Check the invariants of a decoder, in evaluation mode."""
    source, target = map_tensors((inputs.source, inputs.target), lambda x: x.to(device))
    inputs = DecoderInputs(source, target, inputs.special_tokens)
    checks = (chunking_invariance, padding_invariance, logit_kernel_equivalence, causality, search_consistency)
    return [
        function(model, inputs)
        for function in checks
        if function is not padding_invariance or isinstance(source, Padded)
    ]


def random_inputs(
    sizes: Seq2SeqSpec | MusicSpec, *, rows: int = 3, length: int = MAX_RANDOM_TOKENS, seed: int = 0
) -> DecoderInputs:
    """Return random sequences of different lengths."""
    source_size, target_size = (
        (sizes.source_vocab_size, sizes.target_vocab_size)
        if isinstance(sizes, Seq2SeqSpec)
        else (sizes.num_conditions, sizes.vocab_size)
    )
    generator = torch.Generator().manual_seed(seed)
    max_length = max(2, min(length, sizes.max_length - 3))  # room for padding and a longer output
    lengths = torch.randint(1, max_length + 1, (rows,), generator=generator)
    lengths[0] = max_length
    first = sizes.special_tokens.first_regular_id
    tokens = torch.randint(first, source_size, (rows, max_length), generator=generator)
    tokens = tokens.where(torch.arange(max_length) < lengths[:, None], sizes.special_tokens.pad)
    target = torch.randint(first, target_size, (rows, max_length), generator=generator)
    target[:, 0] = sizes.special_tokens.bos
    return DecoderInputs(Padded(tokens, lengths), target, sizes.special_tokens)


def record_decoder_inputs(model: nn.Module, inspectable: Inspectable, special_tokens: SpecialTokens) -> DecoderInputs:
    """Record the inputs of the decoder while an example is replayed: its source and its target tokens."""
    sources, chunks = list[Any](), list[Tensor]()
    decoder: Any = model
    start, features = decoder.start, decoder.features

    def recorded_start(source: Any) -> State:
        sources.append(source)
        return start(source)

    def recorded_features(tokens: Tensor, state: State) -> tuple[Tensor, State]:
        chunks.append(tokens)
        result: tuple[Tensor, State] = features(tokens, state)
        return result

    vars(model).update(start=recorded_start, features=recorded_features)
    try:
        inspectable.replay()
    finally:
        del model.start, model.features
    return DecoderInputs(sources[-1], torch.cat(chunks, dim=1), special_tokens)


def batch_invariance(predict: PredictFn, inputs: Sequence[Any]) -> CheckResult:
    """Invariant 2 for any task. Each input comes first once, because samples may depend on the index in the batch."""
    rotations = [[*inputs[i:], *inputs[:i]] for i in range(len(inputs))]
    pairs = [(predict(batch)[0], predict(batch[:1])[0]) for batch in rotations]
    return _compare("2 batched predictions = single predictions", pairs)


def prediction_kernel_equivalence(predict: PredictFn, inputs: Sequence[Any], model: nn.Module) -> CheckResult:
    """Invariant 3 for any task."""
    fast = predict(inputs)
    with reference_attention(model):
        return _compare("3 predictions by fast kernels = reference", list(zip(fast, predict(inputs), strict=True)))


@torch.no_grad()
def recording_invariance(model: nn.Module, inspectable: Inspectable) -> CheckResult:
    """Invariant 4."""
    name = "4 recording changes nothing, rows sum to one or are empty"
    if not attention_modules(model):
        return CheckResult(name, True, "the model has no attention")
    plain = inspectable.replay()
    with record(model) as maps:
        recorded = inspectable.replay()
    if not torch.equal(plain, recorded):
        return CheckResult(name, False, f"outputs differ by {_gap(plain, recorded):.1e} when recorded")
    sums = torch.cat([attention.weights.sum(dim=-1).flatten().float() for attention in maps.values()])
    return _result(name, float(torch.minimum((sums - 1).abs(), sums.abs()).max()))


def _compare(name: str, pairs: Sequence[tuple[Prediction, Prediction]]) -> CheckResult:
    """Compare predictions by score; without scores, by text."""
    worst = 0.0
    for first, second in pairs:
        if first.score is not None and second.score is not None:
            worst = max(worst, abs(first.score - second.score))
        elif first.text != second.text:
            return CheckResult(name, False, f"{first.text!r} and {second.text!r}")
    return _result(name, worst, tolerance=SCORE_TOLERANCE)


@torch.no_grad()
def chunking_invariance(model: Any, inputs: DecoderInputs) -> CheckResult:
    """Invariant 1."""
    complete, _ = model(inputs.target, model.start(inputs.source))
    worst = 0.0
    for size in (1, 2, 5):
        state, parts = model.start(inputs.source), []
        for chunk in inputs.target.split(size, dim=1):
            logits, state = model(chunk, state)
            parts.append(logits)
        worst = max(worst, _gap(torch.cat(parts, dim=1), complete))
    return _result("1 chunking does not matter", worst)


@torch.no_grad()
def padding_invariance(model: Any, inputs: DecoderInputs) -> CheckResult:
    """Invariant 2."""
    complete, _ = model(inputs.target, model.start(inputs.source))
    worst = 0.0
    for row, length in enumerate(inputs.source.lengths.tolist()):
        alone = Padded(inputs.source.tokens[row : row + 1, :length], inputs.source.lengths[row : row + 1])
        logits, _ = model(inputs.target[row : row + 1], model.start(alone))
        worst = max(worst, _gap(logits, complete[row : row + 1]))
    padded = nn.functional.pad(inputs.source.tokens, (0, 3), value=inputs.special_tokens.pad)
    logits, _ = model(inputs.target, model.start(Padded(padded, inputs.source.lengths)))
    return _result("2 padding does not matter", max(worst, _gap(logits, complete)))


@torch.no_grad()
def logit_kernel_equivalence(model: Any, inputs: DecoderInputs) -> CheckResult:
    """Invariant 3."""
    fast, _ = model(inputs.target, model.start(inputs.source))
    with reference_attention(model):
        reference, _ = model(inputs.target, model.start(inputs.source))
    return _result("3 fast kernels = reference", _gap(fast, reference))


@torch.no_grad()
def causality(model: Any, inputs: DecoderInputs) -> CheckResult:
    """Invariant 5: changing the last token does not change any earlier output, bit for bit."""
    before, _ = model(inputs.target, model.start(inputs.source))
    changed = inputs.target.clone()
    changed[:, -1] = torch.where(changed[:, -1] == changed.max(), changed.min(), changed.max())
    after, _ = model(changed, model.start(inputs.source))
    return _result("5 causality", _gap(before[:, :-1], after[:, :-1]), tolerance=0.0)


def search_consistency(model: Any, inputs: DecoderInputs) -> CheckResult:
    """Invariant 6."""
    state, rows = model.start(inputs.source), len(inputs.target)
    # Slightly longer than the target, within the maximum length of the model.
    limits = torch.full((rows,), min(inputs.target.shape[1], MAX_RANDOM_TOKENS) + 2, device=inputs.target.device)

    def decode(decoding: DecodingStrategy) -> list[list[Hypothesis]]:
        return decoding(model, state, special_tokens=inputs.special_tokens, limits=limits)

    greedy, narrow = decode(build("greedy")), decode(build("beam", beam_width=1))
    if [best[0].tokens for best in greedy] != [best[0].tokens for best in narrow]:
        return CheckResult("6 search", False, "beam search with width 1 and greedy search differ")
    wide = decode(build("beam", beam_width=4, nbest=4))
    worst = 0.0
    for hypotheses in (greedy, wide):
        for row, best in enumerate(hypotheses):
            alone = select_sources(state, limits.new_tensor([row]))
            for hypothesis in best:
                score = teacher_forced_score(model, alone, hypothesis, inputs.special_tokens)
                worst = max(worst, abs(score - hypothesis.score))
    return _result("6 search: beam 1 = greedy, scores = teacher-forced scores", worst, tolerance=SCORE_TOLERANCE)


@torch.no_grad()
def teacher_forced_score(model: Any, state: State, hypothesis: Hypothesis, special_tokens: SpecialTokens) -> float:
    """Return the teacher-forced score of a hypothesis: the sum of log p over its tokens and EOS."""
    device = next(model.parameters()).device
    tokens = torch.tensor([[special_tokens.bos, *hypothesis.tokens, special_tokens.eos]], device=device)
    logits, _ = model(tokens[:, :-1], state)
    return float(logits.log_softmax(dim=-1).gather(2, tokens[:, 1:, None]).sum())


@contextmanager
def reference_attention(model: nn.Module) -> Iterator[None]:
    """Compute every attention of the model by its definition, weights · values, inside the block.

    Hooks replace the results of the fast kernels. A model with hooks is never decoded by an optimized copy.
    """
    hooks = [
        module.register_forward_hook(_reference_output, with_kwargs=True)
        for module in attention_modules(model).values()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _reference_output(module: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
    weigh: Any = module.weigh
    q, k, v, mask = AttentionCall.from_inputs(*inputs, **kwargs)
    if q.shape[0] != k.shape[0]:
        return unfold_hypotheses(weigh(fold_hypotheses(q, k, mask), k, mask) @ v, q.shape[0])
    reference: Tensor = weigh(q, k, mask) @ v
    return reference


def _gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max()) if a.numel() else 0.0


def _result(name: str, worst: float, *, tolerance: float = LOGIT_TOLERANCE) -> CheckResult:
    return CheckResult(name, worst <= tolerance, f"largest difference {worst:.1e}")
