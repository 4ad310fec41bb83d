"""timm's Vision Transformer in the shape of regard's. timm imports torchvision in many modules, but its ViT does not
use it. If torchvision is not installed, an empty module replaces it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

from torch import nn

NAME = "torchvision"


class Named(type):
    """Metaclass whose attributes are their own names, like members of an enumeration."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class Nothing(ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Named(name, (nn.Module,), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook that creates torchvision and its submodules as empty modules."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == NAME else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = Nothing(spec.name)
        module.__version__ = "0.0.0"  # type: ignore[attr-defined]  # timm reads it
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty."""


def timm_vit(side: int, *, layers: int, dim: int, heads: int, ffn_dim: int, patch: int) -> nn.Module:
    """Images (b 3 side side) -> logits of ten classes, with a class token like the vit of regard."""
    if importlib.util.find_spec(NAME) is None:
        sys.meta_path.append(Finder())
    from timm.models.vision_transformer import VisionTransformer

    shape = {"embed_dim": dim, "depth": layers, "num_heads": heads, "mlp_ratio": ffn_dim / dim}
    model: nn.Module = VisionTransformer(img_size=side, patch_size=patch, num_classes=10, **shape)
    return model
