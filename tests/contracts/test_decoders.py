"""Every decoder that is listed keeps its laws on every model that is listed: a new file is tested by being there."""

from dataclasses import fields, replace
from typing import Any, NamedTuple, get_type_hints

import pytest
import torch
from torch import Tensor, nn

from regard.core import config as configuration
from regard.core.errors import CheckpointError, RegardError, ShapeError
from regard.core.protocols import Hypothesis, Padded
from regard.core.registry import find, names
from regard.core.sizes import Marks, Text
from regard.core.tree import Shared, map_tensors

MARKS = Marks()
SIZES = Text(source=17, target=13, longest=12, marks=MARKS)
LIMITS = [9, 4, 0, 11, 6]
WIDER = {"width": 4, "nbest": 3, "samples": 3}  # used where a Config has them


class ToyState(NamedTuple):
    """Every kind of part: a tensor, a cache that grows, a shared tree, plain values."""

    hidden: Tensor
    past: tuple[tuple[Tensor, Tensor], ...]
    source: Shared[tuple[Tensor, None]]
    note: str


class Toy(nn.Module):
    """A recurrent net whose logits hang on every part of its state."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(SIZES.source, 8)
        self.target = nn.Embedding(SIZES.target, 8)
        self.cell = nn.GRUCell(8, 8)
        self.readout = nn.Linear(8, SIZES.target)

    def start(self, source: Padded) -> ToyState:
        kept = torch.arange(source.tokens.shape[1]) < source.lengths[:, None]
        context = torch.einsum("bsd,bs->bd", self.source(source.tokens), kept.float())
        empty = context.new_zeros(len(context), 0, 8)
        return ToyState(torch.zeros_like(context), ((empty, empty),), Shared((context, None)), "toy")

    def features(self, tokens: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        outputs = []
        context = state.source.value[0].repeat_interleave(len(tokens) // len(state.source.value[0]), dim=0)
        hidden, ((keys, values),) = state.hidden, state.past
        for x in self.target(tokens).unbind(1):
            hidden = self.cell(x, hidden)
            keys, values = torch.cat([keys, x[:, None]], 1), torch.cat([values, hidden[:, None]], 1)
            look = torch.einsum("bd,btd,bte->be", hidden, keys, values)
            outputs.append(hidden + look + context)
        return torch.stack(outputs, 1), ToyState(hidden, ((keys, values),), state.source, state.note)

    def forward(self, tokens: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        features, state = self.features(tokens, state)
        return self.readout(features), state


def listed() -> list[str]:
    """The models that decode from a padded source."""
    found = []
    for name in names("regard.models"):
        try:
            start = getattr(build(name), "start", None)
        except RegardError:  # it asks for sizes that text does not have
            continue
        if start is not None and get_type_hints(start).get("source") is Padded:
            found.append(name)
    return found


def build(name: str) -> Any:
    """The model so named, its output far from uniform, so that nothing hangs on rounding."""
    torch.manual_seed(3)
    if name == "toy":
        return Toy().eval()
    module = find("regard.models", name)
    model = module.build(module.TINY, SIZES).eval()
    if hasattr(model, "readout"):
        model.readout.weight = nn.Parameter(torch.randn_like(model.readout.weight) * 2)
    return model


def settings(decoder: Any) -> Any:
    known = {field.name for field in fields(decoder.Config)}
    return replace(decoder.Config(), **{name: value for name, value in WIDER.items() if name in known})


def sources() -> Padded:
    lengths = torch.tensor([7, 3, 5, 1, 6])
    tokens = torch.randint(4, SIZES.source, (5, 7), generator=torch.Generator().manual_seed(0))
    return Padded(tokens.masked_fill(torch.arange(7) >= lengths[:, None], MARKS.pad), lengths)


def part(source: Padded, rows: list[int]) -> Padded:
    lengths = source.lengths[rows]
    return Padded(source.tokens[rows, : int(lengths.max())], lengths)


@torch.no_grad()
def decode(
    decoder: Any, model: Any, source: Padded, *, limits: list[int], config: Any = None
) -> list[list[Hypothesis]]:
    config = settings(decoder) if config is None else config
    return decoder.decode(model, model.start(source), marks=MARKS, limits=torch.tensor(limits), config=config)


@pytest.fixture(params=names("regard.decoding"))
def decoder(request: pytest.FixtureRequest) -> Any:
    return find("regard.decoding", request.param)


@pytest.fixture(params=["toy", *listed()])
def model(request: pytest.FixtureRequest) -> Any:
    return build(request.param)


def test_hypotheses_keep_to_the_rules(decoder, model):
    for config in (decoder.Config(), settings(decoder)):
        found = decode(decoder, model, sources(), limits=LIMITS, config=config)
        assert len(found) == len(LIMITS)
        for hypotheses, limit in zip(found, LIMITS, strict=True):
            assert hypotheses
            assert all(len(h.tokens) <= limit for h in hypotheses)
            assert not {MARKS.pad, MARKS.start, MARKS.end} & {token for h in hypotheses for token in h.tokens}
            ranks = [h.rank_score for h in hypotheses]
            assert ranks == sorted(ranks, reverse=True)


@torch.no_grad()
def test_scores_are_teacher_forced_scores(decoder, model):
    source = sources()
    for i, hypotheses in enumerate(decode(decoder, model, source, limits=LIMITS)):
        for tokens, score, _ in hypotheses:
            logits, _ = model(torch.tensor([[MARKS.start, *tokens]]), model.start(part(source, [i])))
            chosen = torch.tensor([*tokens, MARKS.end])[:, None]
            assert score == pytest.approx(float(logits[0].log_softmax(-1).gather(1, chosen).sum()), abs=1e-3)


def test_batched_is_single(decoder, model):
    """Each source in turn comes first, for a decoder that draws gives every place in the batch its own numbers."""
    source = sources()
    for i in range(len(LIMITS)):
        order = [i, *(j for j in range(len(LIMITS)) if j != i)]
        limits = [LIMITS[j] for j in order]
        batched = decode(decoder, model, part(source, order), limits=limits)[0]
        (single,) = decode(decoder, model, part(source, [i]), limits=limits[:1])
        assert [h.tokens for h in batched] == [h.tokens for h in single]
        assert [h.score for h in batched] == pytest.approx([h.score for h in single], abs=1e-3)


@torch.no_grad()
def test_a_state_can_be_decoded_from_again(decoder, model):
    state = model.start(sources())
    before = map_tensors(state, lambda x: x.clone())
    once, again, fresh = (
        decoder.decode(model, start, marks=MARKS, limits=torch.tensor(LIMITS), config=settings(decoder))
        for start in (state, state, before)
    )
    assert once == again == fresh


def test_an_empty_limit_gives_the_empty_output(decoder, model):
    for hypotheses in decode(decoder, model, sources(), limits=[0] * 5):
        assert {h.tokens for h in hypotheses} == {()}


def test_nothing_to_decode(decoder, model):
    state = model.start(sources())
    limits = torch.empty(0, dtype=torch.long)
    assert decoder.decode(model, state, marks=MARKS, limits=limits, config=decoder.Config()) == []


@torch.no_grad()
def test_a_prompt_is_continued(decoder, model):
    source = sources()
    prompt = torch.tensor([[MARKS.start, 5, 7, 6]]).expand(5, -1)
    _, state = model(prompt[:, :-1], model.start(source))
    found = decoder.decode(
        model, state, marks=MARKS, limits=torch.tensor([7] * 5), config=settings(decoder), first=prompt[:, -1]
    )
    for i, hypotheses in enumerate(found):
        for tokens, score, _ in hypotheses:
            logits, _ = model(torch.tensor([[*prompt[i], *tokens]]), model.start(part(source, [i])))
            chosen = torch.tensor([*tokens, MARKS.end])[:, None]
            total = logits[0, prompt.shape[1] - 1 :].log_softmax(-1).gather(1, chosen).sum()
            assert score == pytest.approx(float(total), abs=1e-3)


def test_settings_are_read_and_written(decoder):
    config = settings(decoder)
    table = configuration.to_dict(config)
    assert configuration.from_dict(decoder.Config, table, "decoding") == config


def test_limits_and_state_must_agree(decoder):
    with pytest.raises(ShapeError, match=r"^limits has 3 entries, the state 5 rows; give one per source$"):
        decode(decoder, build("toy"), sources(), limits=[4, 4, 4])


def test_an_unknown_kind_of_state_is_an_error(decoder):
    class Forgetful(Toy):
        def features(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
            features, state = super().features(tokens, state)
            return features, state._replace(note={"coverage": features})

    with pytest.raises(TypeError, match="a state holds dict; states are tuples of tensors and plain values"):
        decode(decoder, Forgetful(), sources(), limits=[0, 3, 0, 5, 9])


def test_a_broken_model_is_named(decoder):
    model = build("toy")
    with torch.no_grad():
        model.readout.bias.fill_(float("nan"))
    with pytest.raises(
        CheckpointError, match=r"^source 0: the model's log probabilities are not finite; its weights are"
    ):
        decode(decoder, model, sources(), limits=LIMITS)
