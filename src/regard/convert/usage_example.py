"""Ordinary code of transformers for an exported folder: written to its README, and run before the export is kept."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from regard.core.version import __version__


def translate(folder: str, texts: Sequence[str]) -> list[str]:
    """Texts -> translations, by greedy search."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    outputs = [model.generate(**tokenizer(text, return_tensors="pt"))[0] for text in texts]
    translations: list[str] = tokenizer.batch_decode(outputs, skip_special_tokens=True)
    return translations


def continue_texts(folder: str, texts: Sequence[str]) -> list[str]:
    """Prompts -> the prompts and their continuations, by greedy search."""
    from transformers import pipeline

    generator = pipeline("text-generation", folder, device="cpu")
    outputs = [generator(text, max_new_tokens=16, do_sample=False) for text in texts]
    return [output[0]["generated_text"] for output in outputs]


def fill_masks(folder: str, texts: Sequence[str]) -> list[list[str]]:
    """Texts with one [MASK] each -> the most likely tokens for it, best first."""
    from transformers import pipeline

    fill = pipeline("fill-mask", folder, device="cpu")
    return [[token["token_str"].strip() for token in fill(text, top_k=10)] for text in texts]


def classify_images(folder: str, images: Sequence[Any]) -> list[dict[str, float]]:
    """Pillow images, or paths of image files -> the most likely classes and their probabilities."""
    from transformers import pipeline

    classify = pipeline("image-classification", folder, device="cpu")
    outputs = [classify(image) for image in images]
    return [{row["label"]: row["score"] for row in output} for output in outputs]


def readme(name: str, architecture: str, use: Callable[..., Any], *, example: str, count: int) -> str:
    """Return README.md of an exported folder, with the code that was run before the export was kept."""
    imports = "from collections.abc import Sequence\nfrom typing import Any"
    call = f"print({use.__name__}(FOLDER, {example}))"
    return f"""# {name}

A `{architecture}` for transformers, exported by regard {__version__}. The code below gave the predictions of the run on
{count} inputs before this folder was written. `FOLDER` is the path of this folder.

```python
{imports}


{inspect.getsource(use)}

{call}
```
"""
