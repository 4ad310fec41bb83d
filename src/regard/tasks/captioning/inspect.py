"""A caption as it is shown: its words, the cells of the image, and the model run again over both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output
from regard.core.progress import track
from regard.core.protocols import Hypothesis
from regard.core.state_tree import repeat_rows
from regard.data import batching
from regard.data.builtin.scenes import Box
from regard.data.images.image_files import Pixels
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from regard.decoding.strategy import DecodingStrategy, optimize_for_decoding
from regard.tasks._shared.image_inputs import InputImage
from regard.tasks._shared.teacher_forcing import ablate_tokens, with_alternatives
from regard.tasks.captioning.grounding import (
    BATCH_CAPTIONS,
    CELL_AXIS,
    CaptionVocab,
    EncodeImages,
    ablate_cells,
    cell_box,
    grid_size,
)

MAX_HYPOTHESES = 640  # captions of them that are searched for side by side: more gain little, and take memory


class OcclusionResult(NamedTuple):
    """What is said of the image when a part of it is greyed out."""

    box: Box
    text: str


@dataclass(frozen=True)
class SearchSettings:
    """How captions are searched for."""

    decoding: DecodingStrategy
    special_tokens: SpecialTokens
    max_length: int  # tokens of a caption, at most
    image_encoder: EncodeImages


def search(model: Any, pixels: Pixels, settings: SearchSettings) -> list[list[Hypothesis]]:
    """Images (n h w c) of 0 … 255 -> the captions of each, best first; what is drawn depends on an image's number."""
    told: list[list[Hypothesis]] = []
    together = min(BATCH_CAPTIONS, max(1, MAX_HYPOTHESES // settings.decoding.width))
    starts = range(0, len(pixels), together)
    with eval_mode(model) as device:
        fast = optimize_for_decoding(model)
        for low in track(starts, total=len(starts)):
            images = settings.image_encoder(pixels[low : low + together]).to(device)
            limits = torch.full((len(images),), settings.max_length, device=device)
            numbers = torch.arange(low, low + len(images), device=device)
            told += settings.decoding(
                fast, fast.start(images), special_tokens=settings.special_tokens, limits=limits, sample_indices=numbers
            )
    return told


@dataclass(frozen=True)
class CaptionedImage:
    """An image with its captions, best first."""

    image: InputImage
    hypotheses: list[Hypothesis]
    seconds: float  # that the search took
    occlusions: tuple[OcclusionResult, ...]
    image_encoder: EncodeImages

    @property
    def pixels(self) -> Pixels:
        """(h w c)."""
        return self.image.pixels


def build_inspectable(model: Any, captioned: CaptionedImage, caption_vocab: CaptionVocab) -> Inspectable:
    """An image and its captions -> axes, outputs, and ways to run the model again."""
    marks, vocabulary = caption_vocab.special_tokens, caption_vocab.vocabulary
    device = next(model.parameters()).device
    best = [*captioned.hypotheses[0].tokens, marks.eos]
    captions = torch.tensor([[marks.bos, *best]], device=device)
    image = captioned.image_encoder(captioned.pixels[None]).to(device)
    items = _items(best, vocabulary)
    height, width = grid_size(model)
    cells = tuple(_cell(place, height, width) for place in range(height * width))
    read = (Item(vocabulary.token_text(marks.bos), special=True), *items[:-1])
    axes = {"words": Axis(items, "words"), CELL_AXIS: Axis(cells, CELL_AXIS), "read": Axis(read, "read", input="read")}
    return Inspectable(
        title=captioned.image.name,
        axes=axes,
        query_axes={"words": (AxisRef("words"),)},
        key_axes={CELL_AXIS: (AxisRef(CELL_AXIS),), "read": (AxisRef("read"),)},
        outputs=_outputs(model, image, captioned.hypotheses, caption_vocab),
        replay=lambda: model(captions[:, :-1], model.start(image))[0][0],
        predicted_ids=captions[0, 1:],
        seconds=captioned.seconds,
        answer_axis="words",
        ablations={
            CELL_AXIS: lambda: ablate_cells(model, captioned.pixels, captions, image_encoder=captioned.image_encoder),
            "read": lambda: ablate_tokens(model, image, captions[:, :-1], unk=marks.unk),
        },
        inputs={"read": captions[:, :-1]},
        views=("captions",),
        extra={"captions": _extra(captioned)},
    )


def _items(tokens: Sequence[int], vocabulary: Tokenizer) -> tuple[Item, ...]:
    pieces = vocabulary.decode_with_offsets(list(tokens[:-1]))
    items = [Item(piece.text, word=number, span=(piece.start, piece.stop)) for number, piece in enumerate(pieces)]
    return (*items, Item(SPECIAL_TOKENS[SpecialTokens.eos].strip(), special=True))


def _cell(place: int, height: int, width: int) -> Item:
    row, column = divmod(place, width)
    return Item(f"{row},{column}", box=cell_box(place, height, width))


def _outputs(model: Any, image: Tensor, hypotheses: Sequence[Hypothesis], words: CaptionVocab) -> tuple[Output, ...]:
    """The captions with log p of every token, and what else might have stood there."""
    vocabulary, marks = words
    rows = [[marks.bos, *hypothesis.tokens, marks.eos] for hypothesis in hypotheses]
    tokens = batching.pad(rows, marks.pad).tokens.to(image.device)
    logits, _ = model(tokens[:, :-1], repeat_rows(model.start(image), len(rows)))
    scores = logits.float().log_softmax(dim=-1)  # (n t v)
    outputs = []
    for row, hypothesis, own in zip(rows, hypotheses, scores, strict=True):
        each = with_alternatives(row[1:], own[: len(row) - 1], lambda token, _: vocabulary.token_text(token))
        text = vocabulary.decode([hypothesis.tokens])[0]
        outputs.append(Output(text, hypothesis.score, hypothesis.rank_score, each))
    return tuple(outputs)


def _extra(told: CaptionedImage) -> dict[str, Any]:
    """Plain values for the view: the image, and what is said of it without each of its parts."""
    height, width, channels = told.pixels.shape
    pixels = told.pixels.reshape(-1, channels).tolist()
    again = [{"box": [round(edge, 4) for edge in each.box], "text": each.text} for each in told.occlusions]
    return {"height": height, "width": width, "pixels": pixels, "again": again}
