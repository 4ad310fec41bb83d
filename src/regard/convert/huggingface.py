"""Runs as folders that Hugging Face transformers reads, and such folders as runs; logits are compared both times."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from regard.convert import vocabulary, weight_map
from regard.core.errors import CheckpointError, ConfigError, DataError, RegardError
from regard.core.extras import require
from regard.core.registry import find, registered_names
from regard.core.seed import preserve_rng_state
from regard.data.text import tokenizer
from regard.training.load_run import LoadedRun
from regard.training.run_folder import create_run_folder

LAYOUTS = "regard.convert.architectures"
LOGIT_TOLERANCE = 1e-3  # largest difference of logits
Ids = Callable[[str, Tensor], Tensor]


def layouts_of(model: str) -> list[ModuleType]:
    """The layouts for a model of ours, by its name."""
    known = [find(LAYOUTS, name) for name in registered_names(LAYOUTS)]
    found = [module for module in known if model == module.MODEL]
    if not found:
        others = ", ".join(sorted({module.MODEL for module in known}))
        raise ConfigError(f"transformers has no layout for the model {model}; models that have one: {others}")
    return found


def select_layout(layouts: list[ModuleType], config: Any, sizes: Any) -> ModuleType:
    """The first layout that a model fits; an error that says of each why not."""
    reasons = []
    for layout in layouts:
        try:
            layout.check(config, sizes)
            return layout
        except ConfigError as wrong:
            reasons.append(str(wrong))
    raise ConfigError("; ".join(reasons))


def export(parts: LoadedRun, out: Path) -> str:
    """A run -> a folder that transformers reads; gives the name of the layout. The logits there are those here."""
    name, config, sizes = parts.recipe.model.name, parts.recipe.model.config, parts.task.spec
    layouts = layouts_of(name)
    if type(parts.model).__module__ != find("regard.models", name).__name__:
        raise ConfigError(f"{parts.folder}: a {name} with a head for another task; only its own head has a layout")
    layout = select_layout(layouts, config, sizes)
    library = require("transformers", extra="huggingface")
    with preserve_rng_state(), _quietly(library):
        theirs = layout.build_theirs(config, sizes, library).eval()
        if classes := getattr(parts.task, "classes", ()):
            theirs.config.id2label = dict(enumerate(classes))
            theirs.config.label2id = {name: number for number, name in enumerate(classes)}
        _fill(theirs, weight_map.to_theirs(layout.weight_mappings(config, sizes), parts.model.state_dict()))
        check_logits(layout, parts.model, theirs, sizes, ids=lambda _, tokens: tokens)

        def fill(draft: Path) -> None:
            theirs.save_pretrained(draft)
            _write_files(parts, draft, library, template=layout.TEMPLATE)

        _create(out, fill)
    return type(theirs).__name__


def _create(out: Path, fill: Callable[[Path], None]) -> None:
    def write(draft: Any) -> None:
        fill(draft.path)
        shutil.rmtree(draft.state)

    create_run_folder(out, write)


def _fill(theirs: nn.Module, tensors: weight_map.Tensors) -> None:
    """Put weights into a model of theirs; what is neither given nor tied nor fixed is a mistake of ours."""
    result = theirs.load_state_dict(tensors, strict=False)
    fixed = ("embed_positions.weight", "token_type_embeddings.weight", "final_logits_bias", "shared.weight")
    left = [name for name in result.missing_keys if not name.endswith(fixed)]
    if left or result.unexpected_keys:
        first = [*left, *result.unexpected_keys][0]
        raise CheckpointError(f"this version of transformers names weights otherwise: {first}")
    with torch.no_grad():
        for name in result.missing_keys:
            if name.endswith("token_type_embeddings.weight"):  # the only segment there is adds nothing
                theirs.get_parameter(name).zero_()


def check_logits(layout: ModuleType, ours: nn.Module, theirs: nn.Module, sizes: Any, *, ids: Ids) -> None:
    """The logits of both models on the same inputs are the same, or it is said that they are not."""
    torch.manual_seed(1)
    with torch.no_grad():
        largest = layout.difference(ours, theirs, sizes, ids)
    if not largest <= LOGIT_TOLERANCE:
        raise CheckpointError(
            f"the {layout.MODEL} gives other logits here than in transformers, by {largest:.2g}; nothing was written"
        )


def _write_files(parts: LoadedRun, draft: Path, library: Any, *, template: str) -> None:
    """Vocabularies for AutoTokenizer; where there are two, the files of both languages beside."""
    found = sorted(parts.folder.glob("tokenizer*.json"))
    for path in found:
        if len(found) > 1:
            shutil.copyfile(path, draft / path.name)
    first = next((path for path in found if path.name in ("tokenizer.json", "tokenizer.source.json")), None)
    if first is not None:
        vocabulary.write_tokenizer(
            tokenizer.load(first), draft, library, template=template, longest=parts.task.spec.max_length
        )
    if (parts.folder / "images.json").exists():
        shutil.copyfile(parts.folder / "images.json", draft / "images.json")


@contextmanager
def _quietly(library: Any) -> Iterator[None]:
    """transformers says much that is no news: what it says is said by us, in one line, where it matters."""
    level = library.logging.get_verbosity()
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        library.logging.set_verbosity(level)


def load_pretrained(source: str, library: Any) -> tuple[ModuleType, Any]:
    """A folder, or the name of a model on the hub -> its layout and the model, all of whose weights were found."""
    path = Path(source)
    local = path.is_absolute() or len(path.parts) > 2 or (path.parent.is_dir() and path.parent.name != "")
    if local and not path.is_dir():
        raise DataError(f"{source}: no such folder; give one that transformers has saved, or owner/name on its hub")
    with _quietly(library):
        try:
            kind = library.AutoConfig.from_pretrained(source).model_type.replace("-", "_")
            if kind not in registered_names(LAYOUTS):
                raise ConfigError(
                    f"{source}: a model of the kind {kind}; regard reads {', '.join(registered_names(LAYOUTS))}"
                )
            layout = find(LAYOUTS, kind)
            reader = layout.their_class(library)
            theirs, told = reader.from_pretrained(source, output_loading_info=True, use_safetensors=True)
        except RegardError:
            raise
        except Exception as wrong:  # whatever the library raises for folders, networks and files
            reason = " ".join(str(wrong).split())[:300]
            raise CheckpointError(f"{source}: transformers cannot read it ({reason})") from None
    missing = sorted(told["missing_keys"])
    if missing:
        raise CheckpointError(f"{source}: it has no weights for {missing[0]}; regard needs the model with its head")
    return layout, theirs.eval().float()
