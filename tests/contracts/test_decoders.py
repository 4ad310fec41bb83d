"""Invariants of every registered decoding strategy with every registered model; new files are tested without further
changes."""

from dataclasses import fields, replace
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.core import config as configuration
from regard.core.data_specs import (
    CaptioningSpec,
    LanguageSpec,
    MusicSpec,
    Seq2SeqSpec,
    SpecialTokens,
    SpeechSpec,
    accepts,
)
from regard.core.errors import CheckpointError, ShapeError
from regard.core.protocols import Hypothesis, Padded
from regard.core.protocols.speech import SpeechFrames
from regard.core.registry import find, registered_names
from regard.core.state_tree import Shared, map_tensors
from regard.decoding.strategy import DecodingStrategy, Search, optimize_for_decoding

SPECIAL_TOKENS = SpecialTokens()
SIZES = Seq2SeqSpec(source_vocab_size=17, target_vocab_size=13, max_length=12)
LIMITS = [9, 4, 0, 11, 6]
LENGTHS = [7, 3, 5, 1, 6]
WIDER = {"beam_width": 4, "nbest": 3, "num_samples": 3}  # used if a Config has them


class ToyCache(NamedTuple):
    """Keys and values (b t d), with one column more at every step."""

    keys: Tensor
    values: Tensor

    def _join(self, other: "ToyCache", *, shared: bool) -> "ToyCache":
        length = max(self.keys.shape[1], other.keys.shape[1])
        longer = [[pad(x, (0, 0, length - x.shape[1], 0)) for x in cache] for cache in (self, other)]
        return ToyCache(*(torch.cat(parts) for parts in zip(*longer, strict=True)))


class ToyState(NamedTuple):
    """Every kind of part: a tensor, a growing cache, a shared tree, plain values."""

    hidden: Tensor
    past: tuple[ToyCache, ...]
    source: Shared[tuple[Tensor, None]]
    note: str


class Toy(nn.Module):
    """A recurrent network whose logits depend on every part of its state."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(SIZES.source_vocab_size, 8)
        self.target = nn.Embedding(SIZES.target_vocab_size, 8)
        self.cell = nn.GRUCell(8, 8)
        self.readout = nn.Linear(8, SIZES.target_vocab_size)

    def start(self, source: Padded) -> ToyState:
        mask = torch.arange(source.tokens.shape[1]) < source.lengths[:, None]
        context = torch.einsum("bsd,bs->bd", self.source(source.tokens), mask.float())
        empty = context.new_zeros(len(context), 0, 8)
        return ToyState(torch.zeros_like(context), (ToyCache(empty, empty),), Shared((context, None)), "toy")

    def features(self, tokens: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        outputs = []
        context = state.source.value[0].repeat_interleave(len(tokens) // len(state.source.value[0]), dim=0)
        hidden, ((keys, values),) = state.hidden, state.past
        for x in self.target(tokens).unbind(1):
            hidden = self.cell(x, hidden)
            keys, values = torch.cat([keys, x[:, None]], 1), torch.cat([values, hidden[:, None]], 1)
            attended = torch.einsum("bd,btd,bte->be", hidden, keys, values)
            outputs.append(hidden + attended + context)
        return torch.stack(outputs, 1), ToyState(hidden, (ToyCache(keys, values),), state.source, state.note)

    def forward(self, tokens: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        features, state = self.features(tokens, state)
        return self.readout(features), state


def texts(sizes: Seq2SeqSpec) -> Padded:
    return random_rows(sizes.source_vocab_size)


def nothing(sizes: LanguageSpec) -> Padded:
    """A language model has no source, only a batch size."""
    return Padded(torch.zeros(len(LENGTHS), 0, dtype=torch.long), torch.zeros(len(LENGTHS), dtype=torch.long))


def images(sizes: CaptioningSpec) -> Tensor:
    return torch.randn(5, sizes.channels, sizes.height, sizes.width, generator=torch.Generator().manual_seed(0))


def recordings(sizes: SpeechSpec) -> SpeechFrames:
    """Recordings of different lengths, padded with zeros."""
    lengths = torch.tensor([60, 47, 52, 44, 55])
    frames = torch.randn(5, 60, sizes.num_bands, generator=torch.Generator().manual_seed(0))
    return SpeechFrames(frames * (torch.arange(60) < lengths[:, None])[..., None], lengths)


def random_rows(size: int) -> Padded:
    lengths = torch.tensor(LENGTHS)
    tokens = torch.randint(4, size, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(0))
    return Padded(tokens.masked_fill(torch.arange(max(LENGTHS)) >= lengths[:, None], SPECIAL_TOKENS.pad), lengths)


# A data spec of each class whose models decode, and a function that creates five sources.
FAMILIES: list[tuple[Any, Any]] = [
    (SIZES, texts),
    (MusicSpec(num_conditions=9, vocab_size=13, max_length=12), lambda sizes: random_rows(sizes.num_conditions)),
    (LanguageSpec(vocab_size=13, max_length=12), nothing),
    (CaptioningSpec(height=8, width=12, channels=3, vocab_size=13, max_length=12), images),
    (SpeechSpec(num_bands=5, vocab_size=13, max_length=12, max_frames=60), recordings),
]


def decodes(module: ModuleType) -> bool:
    """Return True if a module has a class for decoding strategies. Image generators (core.protocols) are excluded:
    their sequences have their own order and no special tokens."""
    classes = [
        value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__
    ]
    decoders = [
        decoder_class
        for decoder_class in classes
        if hasattr(decoder_class, "start") and hasattr(decoder_class, "features")
    ]
    return any("order" not in decoder_class.__annotations__ for decoder_class in decoders)


class Case(NamedTuple):
    """A model and five sources."""

    model: Any
    source: Any


def build(name: str) -> Case:
    """Return the named model. Its output is far from uniform, so that rounding does not matter."""
    torch.manual_seed(3)
    if name == "toy":
        return Case(Toy().eval(), texts(SIZES))
    module = find("regard.models", name)
    compatible = [(sizes, sources) for sizes, sources in FAMILIES if accepts(module, type(sizes))]
    assert compatible, f"{name} decodes, but FAMILIES has no sources for its data spec: add them"
    sizes, sources = compatible[0]
    model = module.build(module.TINY, sizes).eval()
    model.readout.weight = nn.Parameter(torch.randn_like(model.readout.weight) * 2)
    return Case(model, sources(sizes))


def settings(decoder: Any) -> Any:
    names = {field.name for field in fields(decoder.Config)}
    return replace(decoder.Config(), **{name: value for name, value in WIDER.items() if name in names})


def part(source: Any, rows: list[int]) -> Any:
    if isinstance(source, Tensor):
        return source[rows]
    lengths = source.lengths[rows]
    if isinstance(source, SpeechFrames):
        return SpeechFrames(source.frames[rows, : int(lengths.max())], lengths)
    return Padded(source.tokens[rows, : int(lengths.max())], lengths)


def decoding_of(decoder: Any, config: Any = None) -> DecodingStrategy:
    return DecodingStrategy(decoder.__name__.rpartition(".")[2], settings(decoder) if config is None else config)


@torch.no_grad()
def decode(decoder: Any, model: Any, source: Any, *, limits: list[int], config: Any = None) -> list[list[Hypothesis]]:
    return decoding_of(decoder, config)(
        model, model.start(source), special_tokens=SPECIAL_TOKENS, limits=torch.tensor(limits)
    )


@pytest.fixture(params=registered_names("regard.decoding.strategies"))
def decoder(request: pytest.FixtureRequest) -> Any:
    return find("regard.decoding.strategies", request.param)


@pytest.fixture(
    params=["toy", *(name for name in registered_names("regard.models") if decodes(find("regard.models", name)))]
)
def case(request: pytest.FixtureRequest) -> Case:
    return build(request.param)


def test_hypotheses_are_valid(decoder, case):
    for config in (decoder.Config(), settings(decoder)):
        results = decode(decoder, case.model, case.source, limits=LIMITS, config=config)
        assert len(results) == len(LIMITS)
        for hypotheses, limit in zip(results, LIMITS, strict=True):
            assert hypotheses
            assert all(len(h.tokens) <= limit for h in hypotheses)
            assert not {SPECIAL_TOKENS.pad, SPECIAL_TOKENS.bos, SPECIAL_TOKENS.eos} & {
                token for h in hypotheses for token in h.tokens
            }
            ranks = [h.rank_score for h in hypotheses]
            assert ranks == sorted(ranks, reverse=True)


@torch.no_grad()
def test_scores_are_teacher_forced_scores(decoder, case):
    model, source = case
    for i, hypotheses in enumerate(decode(decoder, model, source, limits=LIMITS)):
        for tokens, score, _ in hypotheses:
            logits, _ = model(torch.tensor([[SPECIAL_TOKENS.bos, *tokens]]), model.start(part(source, [i])))
            chosen = torch.tensor([*tokens, SPECIAL_TOKENS.eos])[:, None]
            assert score == pytest.approx(float(logits[0].log_softmax(-1).gather(1, chosen).sum()), abs=1e-3)


def test_batched_equals_single(decoder, case):
    """Each source in turn comes first, because the samples of a strategy depend on the position in the batch."""
    model, source = case
    for i in range(len(LIMITS)):
        order = [i, *(j for j in range(len(LIMITS)) if j != i)]
        limits = [LIMITS[j] for j in order]
        batched = decode(decoder, model, part(source, order), limits=limits)[0]
        (single,) = decode(decoder, model, part(source, [i]), limits=limits[:1])
        assert [h.tokens for h in batched] == [h.tokens for h in single]
        assert [h.score for h in batched] == pytest.approx([h.score for h in single], abs=1e-3)


@torch.no_grad()
def test_a_state_can_be_decoded_from_again(decoder, case):
    state, decoding = case.model.start(case.source), decoding_of(decoder)
    cloned = map_tensors(state, lambda x: x.clone())
    once, repeated, from_clone = (
        decoding(case.model, start, special_tokens=SPECIAL_TOKENS, limits=torch.tensor(LIMITS))
        for start in (state, state, cloned)
    )
    assert once == repeated == from_clone


def test_limit_zero_gives_the_empty_output(decoder, case):
    for hypotheses in decode(decoder, case.model, case.source, limits=[0] * 5):
        assert {h.tokens for h in hypotheses} == {()}


def test_nothing_to_decode(decoder, case):
    assert decode(decoder, case.model, case.source, limits=torch.empty(0, dtype=torch.long).tolist()) == []


@torch.no_grad()
def test_a_prompt_is_continued(decoder, case):
    model, source = case
    prompt = torch.tensor([[SPECIAL_TOKENS.bos, 5, 7, 6]]).expand(5, -1)
    _, state = model(prompt[:, :-1], model.start(source))
    limits = torch.tensor([7] * 5)
    results = decoding_of(decoder)(
        model, state, special_tokens=SPECIAL_TOKENS, limits=limits, first_input=prompt[:, -1]
    )
    for i, hypotheses in enumerate(results):
        for tokens, score, _ in hypotheses:
            logits, _ = model(torch.tensor([[*prompt[i], *tokens]]), model.start(part(source, [i])))
            chosen = torch.tensor([*tokens, SPECIAL_TOKENS.eos])[:, None]
            total = logits[0, prompt.shape[1] - 1 :].log_softmax(-1).gather(1, chosen).sum()
            assert score == pytest.approx(float(total), abs=1e-3)


def finish(search: Search, state: Any) -> dict[int, list[Hypothesis]]:
    hypotheses: dict[int, list[Hypothesis]] = {}
    while state.source_ids.numel():
        state, finished = search.step(state)
        hypotheses |= finished
    return hypotheses


@torch.no_grad()
@pytest.mark.parametrize("fast", [False, True], ids=["plain", "fast"])
def test_merged_sources_are_decoded_as_if_alone(decoder, case, fast):
    """Sources merged after 0, 1, 4 or 20 steps, and the earlier ones, get the same hypotheses as alone."""
    model = optimize_for_decoding(case.model) if fast else case.model
    search = decoding_of(decoder).search(model, special_tokens=SPECIAL_TOKENS)

    def start(rows: list[int]) -> Any:
        return search.start(model.start(part(case.source, rows)), torch.tensor([LIMITS[row] for row in rows]))

    separate = finish(search, start([1, 2, 3]))
    separate |= {3 + source: hypotheses for source, hypotheses in finish(search, start([0, 4])).items()}
    for later in (0, 1, 4, 20):
        state, merged = start([1, 2, 3]), {}
        for _ in range(later):
            state, finished = search.step(state) if state.source_ids.numel() else (state, {})
            merged |= finished
        merged |= finish(search, search.merge(state, start([0, 4])))
        assert merged.keys() == separate.keys(), f"merged after {later} steps"
        for source, hypotheses in separate.items():
            assert [h.tokens for h in merged[source]] == [h.tokens for h in hypotheses], f"merged after {later} steps"
            assert [h.score for h in merged[source]] == pytest.approx([h.score for h in hypotheses], abs=1e-3)


def test_settings_are_read_and_written(decoder):
    config = settings(decoder)
    table = configuration.to_dict(config)
    assert configuration.from_dict(decoder.Config, table, "decoding") == config


def test_limits_and_state_must_agree(decoder):
    with pytest.raises(ShapeError, match=r"^limits has 3 entries but the state has 5 rows; pass one limit per source$"):
        decode(decoder, *build("toy"), limits=[4, 4, 4])


def test_an_unsupported_state_type(decoder):
    class Forgetful(Toy):
        def features(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
            features, state = super().features(tokens, state)
            return features, state._replace(note={"coverage": features})

    with pytest.raises(TypeError, match="a state holds dict; states are tuples of tensors and plain values"):
        decode(decoder, Forgetful(), texts(SIZES), limits=[0, 3, 0, 5, 9])


def test_a_model_with_nan_weights(decoder):
    model, source = build("toy")
    with torch.no_grad():
        model.readout.bias.fill_(float("nan"))
    with pytest.raises(
        CheckpointError, match=r"^source 0: the model's log probabilities are not finite; the weights are"
    ):
        decode(decoder, model, source, limits=LIMITS)
