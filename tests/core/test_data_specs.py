"""Data specs, and the models that accept them."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from regard.core.data_specs import MusicSpec, Seq2SeqSpec, SpecialTokens, accepts, spec_of
from regard.core.errors import ConfigError
from regard.core.registry import find


@dataclass(frozen=True)
class CustomSpec:
    num_classes: int = 3


def model(hint: Any) -> ModuleType:
    def build(config, sizes): ...

    build.__annotations__ = {"sizes": hint}
    return cast("ModuleType", SimpleNamespace(build=build))


def test_an_added_special_token_changes_no_other_id():
    assert SpecialTokens().first_regular_id == SpecialTokens(mask=900).first_regular_id == 4
    assert vars(SpecialTokens()) | {"mask": 900} == vars(SpecialTokens(mask=900))


@pytest.mark.parametrize(
    ("hint", "spec", "accepted"),
    [
        (Seq2SeqSpec, Seq2SeqSpec, True),
        (Seq2SeqSpec, MusicSpec, False),
        (Seq2SeqSpec | CustomSpec, CustomSpec, True),
        (Any, CustomSpec, True),
        (object, CustomSpec, True),
    ],
)
def test_a_model_accepts_the_specs_of_its_annotation(hint, spec, accepted):
    assert accepts(model(hint), spec) is accepted


def test_a_task_without_a_spec_is_an_error():
    with pytest.raises(
        ConfigError, match=r"^regard\.core: it has no data spec; declare one, for example SPEC = Seq2SeqSpec$"
    ):
        spec_of(find("regard", "regard.core"))
