"""Models that fit a task."""

from __future__ import annotations

import pytest

from regard.core.data_specs import spec_of
from regard.core.errors import ConfigError
from regard.core.registry import find, registered_names
from regard.tasks import check_fit, compatible_models


def test_every_registered_task_has_a_spec_and_a_model():
    names = registered_names("regard.tasks")
    assert [name for name in names if not compatible_models(spec_of(find("regard.tasks", name)))] == []


def test_a_model_that_does_not_fit_is_refused_with_the_models_that_do():
    message = (
        "model=music_transformer cannot be trained on the task translation; "
        "models that fit: bahdanau, luong, seq2seq, transformer"
    )
    with pytest.raises(ConfigError) as caught:
        check_fit("translation", "music_transformer")
    assert str(caught.value) == message
    check_fit("translation", "transformer")
