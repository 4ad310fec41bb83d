"""Inspection of a caption: its words, the cells of the image grid, and replays of the model over both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item
from regard.core.protocols import Hypothesis
from regard.data.builtin.scenes import Box
from regard.data.images.image_files import Pixels
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from regard.tasks._shared.image_inputs import InputImage
from regard.tasks._shared.teacher_forcing import ablate_tokens, hypotheses_to_outputs
from regard.tasks.captioning.grounding import (
    CELL_AXIS,
    CaptionModel,
    CaptionVocab,
    EncodeImages,
    ablate_cells,
    cell_box,
    grid_size,
)


class OcclusionResult(NamedTuple):
    """The caption of the image with a part of it greyed out."""

    box: Box
    text: str


@dataclass(frozen=True)
class CaptionedImage:
    """An image with its captions, best first."""

    image: InputImage
    hypotheses: list[Hypothesis]
    seconds: float  # duration of the search
    occlusions: tuple[OcclusionResult, ...]
    image_encoder: EncodeImages

    @property
    def pixels(self) -> Pixels:
        """(h w c)."""
        return self.image.pixels


def build_inspectable(
    model: CaptionModel, captioned: CaptionedImage, caption_vocab: CaptionVocab, *, device: torch.device
) -> Inspectable:
    """An image and its captions -> axes, outputs and replays of the model."""
    vocabulary, special_tokens = caption_vocab
    best = [*captioned.hypotheses[0].tokens, special_tokens.eos]
    captions = torch.tensor([[special_tokens.bos, *best]], device=device)
    image = captioned.image_encoder(captioned.pixels[None]).to(device)
    items = _items(best, vocabulary)
    height, width = grid_size(model)
    cells = tuple(_cell(index, height, width) for index in range(height * width))
    read = (Item(vocabulary.token_text(special_tokens.bos), special=True), *items[:-1])
    axes = {"words": Axis(items, "words"), CELL_AXIS: Axis(cells, CELL_AXIS), "read": Axis(read, "read", input="read")}
    return Inspectable(
        title=captioned.image.name,
        axes=axes,
        query_axes={"words": (AxisRef("words"),)},
        key_axes={CELL_AXIS: (AxisRef(CELL_AXIS),), "read": (AxisRef("read"),)},
        outputs=hypotheses_to_outputs(
            model, image, captioned.hypotheses, tokenizer=vocabulary, special_tokens=special_tokens, device=device
        ),
        replay=lambda: model(captions[:, :-1], model.start(image))[0][0],
        predicted_ids=captions[0, 1:],
        seconds=captioned.seconds,
        answer_axis="words",
        ablations={
            CELL_AXIS: lambda: ablate_cells(model, captioned.pixels, captions, image_encoder=captioned.image_encoder),
            "read": lambda: ablate_tokens(model, image, captions[:, :-1], unk=special_tokens.unk),
        },
        inputs={"read": captions[:, :-1]},
        views=("captions",),
        remarks=captioned.image.remarks,
        extra={"captions": _view_data(captioned)},
    )


def _items(tokens: Sequence[int], vocabulary: Tokenizer) -> tuple[Item, ...]:
    spans = vocabulary.decode_with_offsets(list(tokens[:-1]))
    items = [Item(span.text, word=index, span=(span.start, span.stop)) for index, span in enumerate(spans)]
    return (*items, Item(SPECIAL_TOKENS[SpecialTokens.eos].strip(), special=True))


def _cell(index: int, height: int, width: int) -> Item:
    row, column = divmod(index, width)
    return Item(f"{row},{column}", box=cell_box(index, height, width))


def _view_data(captioned: CaptionedImage) -> dict[str, Any]:
    """Return JSON values for the page: the image, and its caption without each of its parts."""
    height, width, channels = captioned.pixels.shape
    pixels = captioned.pixels.reshape(-1, channels).tolist()
    occlusions = [
        {"box": [round(edge, 4) for edge in result.box], "text": result.text} for result in captioned.occlusions
    ]
    return {"height": height, "width": width, "pixels": pixels, "again": occlusions}
