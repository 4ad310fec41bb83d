"""Export of runs to Hugging Face transformers folders, and loading of such folders; logits are compared."""

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
from regard.core.checksums import check_links
from regard.core.errors import CheckpointError, ConfigError, DataError, RegardError
from regard.core.extras import require
from regard.core.registry import find, registered_names
from regard.core.seed import preserve_rng_state
from regard.data.text import tokenizer
from regard.training.load_run import LoadedRun
from regard.training.run_folder import create_run_folder

LAYOUTS = "regard.convert.architectures"
LOGIT_TOLERANCE = 1e-3  # maximum absolute difference of logits
Ids = Callable[[str, Tensor], Tensor]


def layouts_of(model: str) -> list[ModuleType]:
    """Return the architectures of transformers for a model of regard."""
    modules = [find(LAYOUTS, name) for name in registered_names(LAYOUTS)]
    layouts = [module for module in modules if model == module.MODEL]
    if not layouts:
        supported = ", ".join(sorted({module.MODEL for module in modules}))
        raise ConfigError(f"transformers has no architecture for the model {model}; supported models: {supported}")
    return layouts


def select_layout(layouts: list[ModuleType], config: Any, sizes: Any) -> ModuleType:
    """Return the first architecture that fits a model, or raise an error with all reasons."""
    reasons = []
    for layout in layouts:
        try:
            layout.check(config, sizes)
            return layout
        except ConfigError as error:
            reasons.append(str(error))
    raise ConfigError("; ".join(reasons))


def export(parts: LoadedRun, out: Path) -> str:
    """Export a run to a transformers folder -> the class name. The logits of both models are compared."""
    name, config, sizes = parts.recipe.model.name, parts.recipe.model.config, parts.task.spec
    layouts = layouts_of(name)
    if type(parts.model).__module__ != find("regard.models", name).__name__:
        raise ConfigError(f"{parts.folder}: a {name} with the head of another task; only its own head can be exported")
    layout = select_layout(layouts, config, sizes)
    library = require("transformers", extra="huggingface")
    with preserve_rng_state(), _quietly(library):
        theirs = layout.build_theirs(config, sizes, library).eval()
        if classes := getattr(parts.task, "classes", ()):
            theirs.config.id2label = dict(enumerate(classes))
            theirs.config.label2id = {label: index for index, label in enumerate(classes)}
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
    """Load weights into a transformers model; missing weights must be tied or fixed."""
    result = theirs.load_state_dict(tensors, strict=False)
    fixed = ("embed_positions.weight", "token_type_embeddings.weight", "final_logits_bias", "shared.weight")
    missing = [name for name in result.missing_keys if not name.endswith(fixed)]
    if missing or result.unexpected_keys:
        first = [*missing, *result.unexpected_keys][0]
        raise CheckpointError(f"this version of transformers uses other weight names: {first}")
    with torch.no_grad():
        for name in result.missing_keys:
            if name.endswith("token_type_embeddings.weight"):  # a single segment adds nothing
                theirs.get_parameter(name).zero_()


def check_logits(layout: ModuleType, ours: nn.Module, theirs: nn.Module, sizes: Any, *, ids: Ids) -> None:
    """Raise an error if the logits of both models differ on the same inputs."""
    torch.manual_seed(1)
    with torch.no_grad():
        largest = layout.difference(ours, theirs, sizes, ids)
    if not largest <= LOGIT_TOLERANCE:
        raise CheckpointError(
            f"the logits of {layout.MODEL} differ from transformers by {largest:.2g}; nothing was written"
        )


def _write_files(parts: LoadedRun, draft: Path, library: Any, *, template: str) -> None:
    """Write the vocabulary for AutoTokenizer; if there are two, also copy the files of both languages."""
    paths = sorted(parts.folder.glob("tokenizer*.json"))
    check_links(parts.folder, [path.name for path in paths])  # a file outside must not be copied
    for path in paths:
        if len(paths) > 1:
            shutil.copyfile(path, draft / path.name)
    first = next((path for path in paths if path.name in ("tokenizer.json", "tokenizer.source.json")), None)
    if first is not None:
        vocabulary.write_tokenizer(
            tokenizer.load(first), draft, library, template=template, max_length=parts.task.spec.max_length
        )
    if (parts.folder / "images.json").exists():
        shutil.copyfile(parts.folder / "images.json", draft / "images.json")


@contextmanager
def _quietly(library: Any) -> Iterator[None]:
    """Silence the log output of transformers; errors are reported as one line."""
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
    """A folder, or the name of a model on the hub -> its architecture and the model with all weights."""
    path = Path(source)
    local = path.is_absolute() or len(path.parts) > 2 or (path.parent.is_dir() and path.parent.name != "")
    if local and not path.is_dir():
        raise DataError(f"{source}: no such folder; give a folder saved by transformers, or owner/name on the hub")
    with _quietly(library):
        try:
            model_type = library.AutoConfig.from_pretrained(source).model_type.replace("-", "_")
            if model_type not in registered_names(LAYOUTS):
                raise ConfigError(
                    f"{source}: model type {model_type}; regard supports {', '.join(registered_names(LAYOUTS))}"
                )
            layout = find(LAYOUTS, model_type)
            reader = layout.their_class(library)
            theirs, loading_info = reader.from_pretrained(source, output_loading_info=True, use_safetensors=True)
        except RegardError:
            raise
        except Exception as error:  # any error of the library for folders, networks and files
            reason = " ".join(str(error).split())[:300]
            raise CheckpointError(f"{source}: transformers cannot read it ({reason})") from None
    missing = sorted(loading_info["missing_keys"])
    if missing:
        raise CheckpointError(f"{source}: no weights for {missing[0]}; regard needs the model with its head")
    return layout, theirs.eval().float()
