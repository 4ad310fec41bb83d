"""Models as ONNX programs, for any number of rows and any length, verified by onnxruntime on other sizes.

What decodes becomes two programs. `encoder.onnx` reads a source once (a language model has none). `step.onnx` reads one
token and has a static cache: keys and values of all places that there are, of which it fills the one it is told, so
that every step is the same program over the same shapes.

Shapes: b rows, s tokens of a source, n places, l layers, h heads, d features of a head, v tokens.
"""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.score import ProjectedKeys
from regard.attention.weigh import NoPositionBias
from regard.core.errors import CheckpointError, ConfigError
from regard.core.extras import require
from regard.core.protocols import Padded
from regard.layers.kv_cache import KV
from regard.layers.multihead import MultiHeadAttention
from regard.models.bert import Bert
from regard.models.gpt import GPT
from regard.models.transformer import Transformer
from regard.models.vit import VisionTransformer
from regard.training.load_run import LoadedRun
from regard.training.run_folder import create_run_folder

LOGIT_TOLERANCE = 1e-3  # largest difference of logits
EXPORT_BATCH_SIZE, EXPORT_LENGTH = 2, 6  # of the inputs that a program is made with; it is verified on others


class Program(NamedTuple):
    """What is exported: a module, inputs of some rows and some length, and which axes may vary."""

    module: nn.Module
    inputs: Callable[[int, int], tuple[Tensor, ...]]  # rows, length
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    axes: tuple[Mapping[int, str], ...]  # of each input: axis -> "rows" or "length"


def export(parts: LoadedRun, out: Path) -> list[str]:
    """A run -> a folder of ONNX programs; says what each takes and gives."""
    programs = programs_of(parts)
    require("onnxscript", extra="onnx")
    runtime = require("onnxruntime", extra="onnx")

    def fill(draft: Any) -> None:
        shutil.rmtree(draft.state)
        for name, program in programs.items():
            write(program, draft.path / f"{name}.onnx")
            verify(program, draft.path / f"{name}.onnx", runtime, longest=_longest(parts))
        for path in parts.folder.glob("tokenizer*.json"):
            shutil.copyfile(path, draft.path / path.name)

    create_run_folder(out, fill)
    told = [f"{name}.onnx: {', '.join(p.names)} -> {', '.join(p.outputs)}" for name, p in programs.items()]
    return [f"{out}: for onnxruntime, the same on batches and lengths other than exported", *told]


def programs_of(parts: LoadedRun) -> dict[str, Program]:
    """The programs of a run's model by name."""
    model: Any = parts.model
    sizes = parts.task.spec
    if isinstance(model, Transformer):
        return {"encoder": _encoder(model, sizes), "step": _step(model, sizes, layers=model.decoder)}
    if isinstance(model, GPT):
        return {"step": _step(model, sizes, layers=model.encoder)}
    if isinstance(model, Bert):
        return {"model": _filler(model, sizes)}
    if isinstance(model, VisionTransformer):
        return {"model": _images(model, sizes)}
    raise ConfigError(f"ONNX: {parts.recipe.model.name} cannot be exported; transformer, gpt, bert and vit can")


def write(program: Program, path: Path) -> None:
    """Export a program for any number of rows and any length."""
    limits = {"rows": torch.export.Dim.DYNAMIC, "length": torch.export.Dim.DYNAMIC}
    shapes = tuple({axis: limits[name] for axis, name in axes.items()} for axes in program.axes)
    with _quietly(), torch.no_grad():
        torch.onnx.export(
            program.module,
            program.inputs(EXPORT_BATCH_SIZE, EXPORT_LENGTH),
            str(path),
            input_names=list(program.names),
            output_names=list(program.outputs),
            dynamic_shapes=shapes,
            dynamo=True,
            verbose=False,
            external_data=False,
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """What PyTorch's own exporter warns of is no news."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def verify(program: Program, path: Path, runtime: Any, *, longest: int) -> None:
    """onnxruntime gives what the model gives, for other batches and lengths than those of the export."""
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for rows, length in ((1, 1), (3, min(EXPORT_LENGTH + 5, longest - 1)), (5, 3)):
        given = program.inputs(rows, length)
        with torch.no_grad():
            expected = program.module(*given)
        found = session.run(None, {name: x.numpy() for name, x in zip(program.names, given, strict=True)})
        for name, one, other in zip(program.outputs, found, _listed(expected), strict=True):
            largest = float((torch.from_numpy(one) - other).abs().max())
            if tuple(one.shape) != tuple(other.shape) or not largest <= LOGIT_TOLERANCE:
                what = f"{path.name}: {name} of {rows} rows is other in onnxruntime, by {largest:.2g}"
                raise CheckpointError(f"{what}; nothing was written")


def _listed(output: Any) -> Sequence[Tensor]:
    return output if isinstance(output, tuple) else (output,)


def _longest(parts: LoadedRun) -> int:
    return int(getattr(parts.task.spec, "max_length", EXPORT_LENGTH + 6))


class EncoderProgram(nn.Module):
    """A source (b s), its lengths (b) -> keys and values (l b h s d) as each block of the decoder sees them."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        memories = self.model.start(Padded(tokens, lengths)).source.value
        return torch.stack([each.k.tensor for each in memories]), torch.stack([each.v for each in memories])


class DecoderStepProgram(nn.Module):
    """One token (b 1) at a place (1), what was read before (l b h n d) -> logits (b v), and what has been read now."""

    places: Tensor

    def __init__(self, model: Any, stack: Any, *, longest: int) -> None:
        super().__init__()
        self.stack, self.readout, self.scale = stack, model.readout, stack.embedding.scale
        none = torch.zeros(longest, stack.embedding.table.embedding_dim)
        places = stack.embedding.position.of_length(longest)
        self.register_buffer("places", none if places is None else places.detach())

    def forward(  # noqa: PLR0917  # the inputs of a program are told by their place
        self,
        tokens: Tensor,
        place: Tensor,
        keys: Tensor,
        values: Tensor,
        source_keys: Tensor | None = None,
        source_values: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        x = self.stack.embedding.table(tokens) * self.scale + self.places[place]
        columns = torch.arange(keys.shape[3])
        here, seen = (columns == place)[:, None], Mask(keys=(columns <= place).expand(tokens.shape[0], -1))
        read: list[KV] = []
        for number, block in enumerate(self.stack.layers):
            past = KV.of(ProjectedKeys(keys[number]), values[number])
            x = block.around_self(x, partial(_look_back, block.self_attn, past=past, here=here, seen=seen, read=read))
            if source_keys is not None and source_values is not None and lengths is not None:
                memory = KV.of(ProjectedKeys(source_keys[number]), source_values[number])
                there = Mask(keys=torch.arange(source_keys.shape[3]) < lengths[:, None])
                x = block.around_cross(x, partial(block.cross_attn, memory=memory, mask=there))
            x = block.around_feedforward(x, block.feedforward)
        logits = self.readout(self.stack.last(x))[:, 0]
        return logits, torch.stack([each.k.tensor for each in read]), torch.stack([each.v for each in read])


def _look_back(heads: MultiHeadAttention, x: Tensor, *, past: KV, here: Tensor, seen: Mask, read: list[KV]) -> Tensor:
    """Self-attention over a static cache, after this token was written into it where it belongs; `read` gets it."""
    own = heads.project_kv(x)
    now = KV.of(ProjectedKeys(torch.where(here, own.k.tensor, past.k.tensor)), torch.where(here, own.v, past.v))
    read.append(now)
    return heads.attend_to(heads.project_q(x), now, seen)


def _encoder(model: Transformer, sizes: Any) -> Program:
    def inputs(rows: int, length: int) -> tuple[Tensor, ...]:
        lengths = torch.arange(rows) % length + 1
        lengths[0] = length
        return torch.randint(sizes.special_tokens.first_regular_id, sizes.source_vocab_size, (rows, length)), lengths

    axes: tuple[Mapping[int, str], ...] = ({0: "rows", 1: "length"}, {0: "rows"})
    names = ("tokens", "lengths"), ("source_keys", "source_values")
    return Program(EncoderProgram(model).eval(), inputs, *names, axes)


def _step(model: Any, sizes: Any, *, layers: Any) -> Program:
    first = layers.layers[0].self_attn
    if any(
        not isinstance(m.attend.weigh.place, NoPositionBias)
        for m in layers.modules()
        if isinstance(m, MultiHeadAttention)
    ):
        raise ConfigError("ONNX: a static cache needs places that are added to features (sinusoidal, learned, none)")
    shape = first.heads, sizes.max_length, first.k.out_features // first.heads
    size, both = (
        sizes.target_vocab_size if hasattr(sizes, "target_vocab_size") else sizes.vocab_size,
        hasattr(model, "decoder"),
    )

    def inputs(rows: int, length: int) -> tuple[Tensor, ...]:
        cache = torch.randn(2, len(layers.layers), rows, *shape) * 0.1
        given = (
            torch.randint(sizes.special_tokens.first_regular_id, size, (rows, 1)),
            torch.tensor([length - 1]),
            *cache.unbind(),
        )
        if not both:
            return given
        source = torch.randn(2, len(layers.layers), rows, shape[0], length, shape[2]) * 0.1
        return (*given, *source.unbind(), torch.arange(rows) % length + 1)

    cache: Mapping[int, str] = {1: "rows"}
    axes: list[Mapping[int, str]] = [{0: "rows"}, {}, cache, cache]
    names = ["tokens", "place", "keys", "values"]
    if both:
        axes += [{1: "rows", 3: "length"}, {1: "rows", 3: "length"}, {0: "rows"}]
        names += ["source_keys", "source_values", "lengths"]
    step = DecoderStepProgram(model, layers, longest=sizes.max_length).eval()
    return Program(step, inputs, tuple(names), ("logits", "new_keys", "new_values"), tuple(axes))


class MaskedLMProgram(nn.Module):
    """Texts (b t), their lengths (b) -> logits (b t v) of what may stand at each place."""

    def __init__(self, model: Bert) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        logits: Tensor = self.model.readout(self.model.head(self.model.encoder(Padded(tokens, lengths))))
        return logits


def _filler(model: Bert, sizes: Any) -> Program:
    def inputs(rows: int, length: int) -> tuple[Tensor, ...]:
        return torch.randint(sizes.special_tokens.first_regular_id, sizes.vocab_size, (rows, length)), torch.full(
            (rows,), length
        )

    axes: tuple[Mapping[int, str], ...] = ({0: "rows", 1: "length"}, {0: "rows"})
    return Program(MaskedLMProgram(model).eval(), inputs, ("tokens", "lengths"), ("logits",), axes)


def _images(model: VisionTransformer, sizes: Any) -> Program:
    def inputs(rows: int, length: int) -> tuple[Tensor, ...]:
        return (torch.rand(rows, sizes.channels, sizes.height, sizes.width) * 2 - 1,)

    return Program(model.eval(), inputs, ("images",), ("logits",), ({0: "rows"},))
