"""Export of runs to Hugging Face transformers folders, and loading of such folders; logits are compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import tokenizers
import torch
from torch import Tensor, nn

from regard.convert import image_processor, usage_example, vocabulary, weight_map
from regard.convert.compare_usage import check_usage
from regard.core.checksums import check_links
from regard.core.errors import CheckpointError, ConfigError, DataError, RegardError
from regard.core.extras import require
from regard.core.files import write_text
from regard.core.registry import find, registered_names
from regard.core.seed import preserve_rng_state
from regard.data.text import tokenizer
from regard.training.data_paths import has_user_data
from regard.training.load_run import LoadedRun
from regard.training.run_folder import create_export_folder

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


def export(parts: LoadedRun, out: Path) -> tuple[str, int]:
    """Export a run to a transformers folder -> the class name, and the number of compared predictions.

    The logits of both models are compared, then the predictions by the ordinary code of transformers.
    """
    name, config, sizes = parts.recipe.model.name, parts.recipe.model.config, parts.task.spec
    layouts = layouts_of(name)
    if type(parts.model).__module__ != find("regard.models", name).__name__:
        raise ConfigError(f"{parts.folder}: a {name} with the head of another task; only its own head can be exported")
    layout = select_layout(layouts, config, sizes)
    library = require("transformers", extra="huggingface")
    with preserve_rng_state(), _quietly(library):
        huggingface_model = layout.build_huggingface(config, sizes, library).eval()
        if classes := getattr(parts.task, "classes", ()):
            huggingface_model.config.id2label = dict(enumerate(classes))
            huggingface_model.config.label2id = {label: index for index, label in enumerate(classes)}
        mappings = layout.weight_mappings(config, sizes, huggingface_model.config)
        _fill(huggingface_model, weight_map.to_huggingface(mappings, parts.model.state_dict()))
        _set_generation(huggingface_model, sizes)
        merged = getattr(huggingface_model.config, "source_vocab_size", 0)
        first_source_id = sizes.target_vocab_size if merged else 0
        check_logits(
            layout,
            parts.model,
            huggingface_model,
            sizes,
            ids=lambda table, tokens: tokens + first_source_id if table == "source" else tokens,
        )

        def fill(draft: Path) -> None:
            huggingface_model.save_pretrained(draft)
            _write_files(parts, draft, library, layout=layout, first_source_id=first_source_id)
            checked = check_usage(parts, draft, layout.USAGE)
            example = '["…"]' if has_user_data(parts.recipe.task.config) else checked.example  # user data is not quoted
            card = usage_example.readme(
                out.name,
                type(huggingface_model).__name__,
                layout.USAGE,
                example=example,
                count=checked.num_inputs,
            )
            write_text(draft / "README.md", card)
            counts.append(checked.num_inputs)

        counts: list[int] = []
        create_export_folder(out, fill)
    return type(huggingface_model).__name__, counts[-1]


def _set_generation(huggingface_model: Any, sizes: Any) -> None:
    """Let `generate` search greedily, as long as the model allows, without tokens that regard never predicts."""
    if not huggingface_model.can_generate():
        return
    special_tokens, config = sizes.special_tokens, huggingface_model.generation_config
    config.max_length, config.num_beams, config.do_sample = sizes.max_length, 1, False
    config.suppress_tokens = [special_tokens.pad, special_tokens.bos]
    if not huggingface_model.config.is_encoder_decoder:
        config.suppress_tokens.append(special_tokens.unk)


def _fill(huggingface_model: nn.Module, tensors: weight_map.Tensors) -> None:
    """Load weights into a transformers model; missing weights must be tied or fixed."""
    result = huggingface_model.load_state_dict(tensors, strict=False)
    fixed = ("embed_positions.weight", "token_type_embeddings.weight", "final_logits_bias", "shared.weight")
    missing = [name for name in result.missing_keys if not name.endswith(fixed)]
    if missing or result.unexpected_keys:
        first = [*missing, *result.unexpected_keys][0]
        raise CheckpointError(f"this version of transformers uses other weight names: {first}")
    with torch.no_grad():
        for name in result.missing_keys:
            if name.endswith("token_type_embeddings.weight"):  # a single segment adds nothing
                huggingface_model.get_parameter(name).zero_()


def check_logits(
    layout: ModuleType, regard_model: nn.Module, huggingface_model: nn.Module, sizes: Any, *, ids: Ids
) -> None:
    """Raise an error if the logits of both models differ on the same inputs."""
    torch.manual_seed(1)
    with torch.no_grad():
        largest = layout.difference(regard_model, huggingface_model, sizes, ids)
    if not largest <= LOGIT_TOLERANCE:
        raise CheckpointError(
            f"the logits of {layout.MODEL} differ from transformers by {largest:.2g}; nothing was written"
        )


def _write_files(parts: LoadedRun, draft: Path, library: Any, *, layout: ModuleType, first_source_id: int) -> None:
    """Write the vocabulary for AutoTokenizer, or the image processor for AutoImageProcessor.

    Two vocabularies become one; the files of both languages are written too, for `regard import`.
    """
    if (parts.folder / "images.json").exists():
        image_processor.write(parts.task.shape, draft)  # type: ignore[attr-defined]  # of image tasks
        return
    paths = sorted(parts.folder.glob("tokenizer*.json"))
    check_links(parts.folder, [path.name for path in paths])  # a file outside must not be copied
    names = [name for name in ("tokenizer.json", "tokenizer.source.json") if (parts.folder / name).is_file()]
    source = tokenizer.load(parts.folder / names[0])
    engine = tokenizers.Tokenizer.from_str(source.engine.to_str())
    if first_source_id:
        path = parts.folder / "tokenizer.target.json"
        target = tokenizer.load(path) if path.is_file() else source
        engine = vocabulary.merged_tokenizer(source, target)
        for name, part in (("source", source), ("target", target)):
            part.save(draft / f"tokenizer.{name}.json")
    elif layout.USAGE is usage_example.continue_texts:
        engine = vocabulary.without_strip(engine)
    vocabulary.write_tokenizer(
        engine,
        draft,
        library,
        template=layout.TEMPLATE if getattr(parts.task.spec, "start_token", True) else "$A",
        max_length=parts.task.spec.max_length,
        first_id=first_source_id,
    )


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


def _check_architecture(source: str, names: list[str], layout: ModuleType) -> None:
    """Raise a ConfigError for a model with another head, whose weights would be dropped."""
    if names and not set(names) & set(layout.ARCHITECTURES):
        raise ConfigError(f"{source}: a {names[0]}; regard reads {' and '.join(layout.ARCHITECTURES)}")


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
            _check_architecture(source, library.AutoConfig.from_pretrained(source).architectures or [], layout)
            reader = layout.huggingface_class(library)
            huggingface_model, loading_info = reader.from_pretrained(
                source, output_loading_info=True, use_safetensors=True
            )
        except RegardError:
            raise
        except Exception as error:  # any error of the library for folders, networks and files
            reason = " ".join(str(error).split())[:300]
            raise CheckpointError(f"{source}: transformers cannot read it ({reason})") from None
    missing = sorted(loading_info["missing_keys"])
    if missing:
        raise CheckpointError(
            f"{source}: no weights for {missing[0]}; regard reads {' and '.join(layout.ARCHITECTURES)} with all weights"
        )
    return layout, huggingface_model.eval().float()
