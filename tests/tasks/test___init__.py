"""Which models fit which task."""

from __future__ import annotations

import pytest

from regard.core.data_specs import spec_of
from regard.core.errors import ConfigError
from regard.core.registry import find, registered_names
from regard.tasks import check_fit, compatible_models


@pytest.mark.parametrize("name", registered_names("regard.tasks"))
def test_every_listed_task_has_a_family_and_a_model_for_it(name):
    assert compatible_models(spec_of(find("regard.tasks", name)))


def test_another_family_is_refused_in_one_line_that_lists_what_fits():
    text = (
        "model=music_transformer cannot be trained on the task translation; "
        "models that fit: bahdanau, luong, seq2seq, transformer"
    )
    with pytest.raises(ConfigError) as wrong:
        check_fit("translation", "music_transformer")
    assert str(wrong.value) == text
    check_fit("translation", "transformer")
