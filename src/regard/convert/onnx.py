"""Export of models as ONNX programs for any batch size and length, verified with onnxruntime on other sizes.

A model that decodes becomes two programs. `encoder.onnx` encodes a source once (a language model has none). `step.onnx`
decodes one token with a static KV cache: it fills the given position of preallocated keys and values, so that every
step is the same program over the same shapes.

Shapes: b batch, s source tokens, n positions, l layers, h heads, d features of a head, v vocabulary.
"""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.score import ProjectedKeys
from regard.attention.weigh import NoPositionBias
from regard.convert import onnx_speech
from regard.convert.onnx_program import Program
from regard.core.errors import CheckpointError, ConfigError
from regard.core.extras import require
from regard.core.protocols import Padded
from regard.layers.kv_cache import KV
from regard.layers.multihead import MultiHeadAttention
from regard.models.bert import Bert
from regard.models.ctc import CTC
from regard.models.gpt import GPT
from regard.models.las import ListenAttendSpell
from regard.models.speech_transformer import SpeechTransformer
from regard.models.transformer import Transformer
from regard.models.vit import VisionTransformer
from regard.training.load_run import LoadedRun
from regard.training.run_folder import create_export_folder

LOGIT_TOLERANCE = 1e-3  # maximum absolute difference of logits
EXPORT_BATCH_SIZE, EXPORT_LENGTH = 2, 6  # of the example inputs; verified on others


def export(parts: LoadedRun, out: Path) -> list[str]:
    """Export a run to a folder of ONNX programs -> lines that describe their inputs and outputs."""
    programs = programs_of(parts)
    require("onnxscript", extra="onnx")
    runtime = require("onnxruntime", extra="onnx")

    def fill(draft: Path) -> None:
        for name, program in programs.items():
            write(program, draft / f"{name}.onnx")
            verify(program, draft / f"{name}.onnx", runtime, max_length=_max_length(parts))
        for path in parts.folder.glob("tokenizer*.json"):
            shutil.copyfile(path, draft / path.name)

    create_export_folder(out, fill)
    signatures = [f"{name}.onnx: {', '.join(p.names)} -> {', '.join(p.outputs)}" for name, p in programs.items()]
    return [f"{out}: for onnxruntime, verified on other batch sizes and lengths than exported", *signatures]


def programs_of(parts: LoadedRun) -> dict[str, Program]:
    """Return the programs of a model by name."""
    model: Any = parts.model
    sizes = parts.task.spec
    if isinstance(model, Transformer):
        return {"encoder": _encoder(model, sizes), "step": _step(model, sizes, layers=model.decoder)}
    if isinstance(model, SpeechTransformer | ListenAttendSpell | CTC):
        return _speech(model, sizes)
    if isinstance(model, GPT) and model.encoder.ngrams is not None:
        raise ConfigError("ONNX: n-gram features (model.ngrams) cannot be exported; train with model.ngrams=0")
    if isinstance(model, GPT):
        return {"step": _step(model, sizes, layers=model.encoder)}
    if isinstance(model, Bert):
        return {"model": _masked_lm(model, sizes)}
    if isinstance(model, VisionTransformer):
        return {"model": _images(model, sizes)}
    raise ConfigError(
        f"ONNX: {parts.recipe.model.name} cannot be exported; "
        "supported: transformer, las, speech_transformer, ctc, gpt, bert, vit"
    )


def _speech(model: SpeechTransformer | ListenAttendSpell | CTC, sizes: Any) -> dict[str, Program]:
    programs = {"encoder": onnx_speech.encoder_program(model, sizes)}
    if isinstance(model, SpeechTransformer):
        programs["step"] = _step(model, sizes, layers=model.decoder)
    elif isinstance(model, ListenAttendSpell):
        programs["step"] = onnx_speech.speller_program(model, sizes)
    return programs


def write(program: Program, path: Path) -> None:
    """Export a program for any batch size and length."""
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
            custom_translation_table=onnx_speech.translations(),
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the warnings of the PyTorch exporter."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def verify(program: Program, path: Path, runtime: Any, *, max_length: int) -> None:
    """Compare onnxruntime with the model on other batch sizes and lengths than those of the export."""
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for rows, length in ((1, 1), (3, min(EXPORT_LENGTH + 5, max_length - 1)), (5, 3)):
        inputs = program.inputs(rows, length)
        with torch.no_grad():
            expected = program.module(*inputs)
        actual = session.run(None, {name: x.numpy() for name, x in zip(program.names, inputs, strict=True)})
        for name, result, reference in zip(program.outputs, actual, _as_tuple(expected), strict=True):
            largest = float((torch.from_numpy(result) - reference).abs().max())
            if tuple(result.shape) != tuple(reference.shape) or not largest <= LOGIT_TOLERANCE:
                difference = f"{path.name}: {name} for batch size {rows} differs in onnxruntime by {largest:.2g}"
                raise CheckpointError(f"{difference}; nothing was written")


def _as_tuple(output: Any) -> Sequence[Tensor]:
    return output if isinstance(output, tuple) else (output,)


def _max_length(parts: LoadedRun) -> int:
    return int(getattr(parts.task.spec, "max_length", EXPORT_LENGTH + 6))


class EncoderProgram(nn.Module):
    """A source (b s), its lengths (b) -> keys and values (l b h s d) of the cross-attention of each decoder block."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        caches = self.model.start(Padded(tokens, lengths)).source.value
        return torch.stack([cache.k.tensor for cache in caches]), torch.stack([cache.v for cache in caches])


class DecoderStepProgram(nn.Module):
    """One token (b 1) at a position (1), KV cache (l b h n d) -> logits (b v) and the new KV cache."""

    places: Tensor

    def __init__(self, model: Any, stack: Any, *, max_length: int) -> None:
        super().__init__()
        self.stack, self.readout, self.scale = stack, model.readout, stack.embedding.scale
        zeros = torch.zeros(max_length, stack.embedding.table.embedding_dim)
        encoding = stack.embedding.position.encode_sequence(max_length)
        self.register_buffer("places", zeros if encoding is None else encoding.detach())

    def forward(  # noqa: PLR0917  # the inputs of a program are positional
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
        here, visible = (columns == place)[:, None], Mask(keys=(columns <= place).expand(tokens.shape[0], -1))
        caches: list[KV] = []
        for layer, block in enumerate(self.stack.layers):
            past = KV.of(ProjectedKeys(keys[layer]), values[layer])
            attend = partial(_attend_with_cache, block.self_attn, past=past, here=here, visible=visible, caches=caches)
            x = block.around_self(x, attend)
            if source_keys is not None and source_values is not None and lengths is not None:
                source = KV.of(ProjectedKeys(source_keys[layer]), source_values[layer])
                present = Mask(keys=torch.arange(source_keys.shape[3]) < lengths[:, None])
                x = block.around_cross(x, partial(block.cross_attn, kv=source, mask=present))
            x = block.around_feedforward(x, block.feedforward)
        logits = self.readout(self.stack.last(x))[:, 0]
        return logits, torch.stack([cache.k.tensor for cache in caches]), torch.stack([cache.v for cache in caches])


def _attend_with_cache(
    heads: MultiHeadAttention, x: Tensor, *, past: KV, here: Tensor, visible: Mask, caches: list[KV]
) -> Tensor:
    """Self-attention over a static cache, after the new token was written into it; `caches` gets the result."""
    new = heads.project_kv(x)
    cache = KV.of(ProjectedKeys(torch.where(here, new.k.tensor, past.k.tensor)), torch.where(here, new.v, past.v))
    caches.append(cache)
    return heads.attend_to(heads.project_q(x), cache, visible)


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
        raise ConfigError(
            "ONNX: a static cache needs a position scheme that is added to the features (sinusoidal, learned, none)"
        )
    shape = first.heads, sizes.max_length, first.k.out_features // first.heads
    size = sizes.target_vocab_size if hasattr(sizes, "target_vocab_size") else sizes.vocab_size
    has_source = hasattr(model, "decoder")

    def inputs(rows: int, length: int) -> tuple[Tensor, ...]:
        cache = torch.randn(2, len(layers.layers), rows, *shape) * 0.1
        step_inputs = (
            torch.randint(sizes.special_tokens.first_regular_id, size, (rows, 1)),
            torch.tensor([length - 1]),
            *cache.unbind(),
        )
        if not has_source:
            return step_inputs
        source = torch.randn(2, len(layers.layers), rows, shape[0], length, shape[2]) * 0.1
        return (*step_inputs, *source.unbind(), torch.arange(rows) % length + 1)

    cache: Mapping[int, str] = {1: "rows"}
    axes: list[Mapping[int, str]] = [{0: "rows"}, {}, cache, cache]
    names = ["tokens", "place", "keys", "values"]
    if has_source:
        axes += [{1: "rows", 3: "length"}, {1: "rows", 3: "length"}, {0: "rows"}]
        names += ["source_keys", "source_values", "lengths"]
    step = DecoderStepProgram(model, layers, max_length=sizes.max_length).eval()
    return Program(step, inputs, tuple(names), ("logits", "new_keys", "new_values"), tuple(axes))


class MaskedLMProgram(nn.Module):
    """Texts (b t), their lengths (b) -> logits (b t v) for every position."""

    def __init__(self, model: Bert) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        logits: Tensor = self.model.readout(self.model.head(self.model.encoder(Padded(tokens, lengths))))
        return logits


def _masked_lm(model: Bert, sizes: Any) -> Program:
    def inputs(rows: int, length: int) -> tuple[Tensor, ...]:
        tokens = torch.randint(sizes.special_tokens.first_regular_id, sizes.vocab_size, (rows, length))
        return tokens, torch.full((rows,), length)

    axes: tuple[Mapping[int, str], ...] = ({0: "rows", 1: "length"}, {0: "rows"})
    return Program(MaskedLMProgram(model).eval(), inputs, ("tokens", "lengths"), ("logits",), axes)


def _images(model: VisionTransformer, sizes: Any) -> Program:
    def inputs(rows: int, length: int) -> tuple[Tensor, ...]:
        return (torch.rand(rows, sizes.channels, sizes.height, sizes.width) * 2 - 1,)

    return Program(model.eval(), inputs, ("images",), ("logits",), ({0: "rows"},))
