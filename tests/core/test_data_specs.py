"""Families of sizes: what a task's data decided, and which models can be built from it."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from regard.core.data_specs import MusicSpec, Seq2SeqSpec, SpecialTokens, accepts, spec_of
from regard.core.errors import ConfigError
from regard.core.registry import find


@dataclass(frozen=True)
class Own:
    classes: int = 3


def model(hint: Any) -> ModuleType:
    def build(config, sizes): ...

    build.__annotations__ = {"sizes": hint}
    return cast("ModuleType", SimpleNamespace(build=build))


def test_a_mark_that_is_added_moves_no_number():
    assert SpecialTokens().first_regular_id == SpecialTokens(mask=900).first_regular_id == 4
    assert vars(SpecialTokens()) | {"mask": 900} == vars(SpecialTokens(mask=900))


@pytest.mark.parametrize(
    ("hint", "family", "fits"),
    [
        (Seq2SeqSpec, Seq2SeqSpec, True),
        (Seq2SeqSpec, MusicSpec, False),
        (Seq2SeqSpec | Own, Own, True),
        (Any, Own, True),
        (object, Own, True),
    ],
)
def test_a_model_takes_what_its_annotation_names(hint, family, fits):
    assert accepts(model(hint), family) is fits


def test_a_task_without_a_family_is_named():
    with pytest.raises(ConfigError, match=r"^regard\.core: it must say which sizes it has, for example SIZES = Text$"):
        spec_of(find("regard", "regard.core"))
