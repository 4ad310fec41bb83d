"""Columns of every kind are encoded as features; unknown values have a separate feature."""

import numpy as np
import pytest

from regard.core.errors import ConfigError
from regard.data.ratings import profiles


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2.5", ""], "number"),
        (["a", "b", "a"], "category"),
        (["a|b", "a"], "several"),
        (["a long tale of two cats", "the story of three dogs"], "text"),
    ],
)
def test_kinds_are_detected(cells, kind):
    assert profiles.guess_kind(cells) == kind


def test_a_number_is_encoded_by_its_value_and_its_bin():
    field = profiles.fit("age", [str(age) for age in range(10, 90)])
    young, old, gap = (field.encode(cell) for cell in ("10", "89", ""))
    assert young[0] < 0 < old[0] and young[1] == 1 and old[-2] == 1
    assert gap.tolist() == [0.0] * (field.width - 1) + [1.0] and field.unknown_value_message("x") is not None


def test_several_values_have_unit_norm():
    field = profiles.fit("genres", ["a|b", "b|c", "b"])
    assert field.values[0] == "b"  # the most frequent first
    assert np.linalg.norm(field.encode("a|b")) == pytest.approx(1)
    assert field.encode("zzz")[-1] == 1


def test_an_unknown_value_gets_a_suggestion():
    field = profiles.fit("occupation", ["artist", "writer"])
    assert field.unknown_value_message("artist") is None
    message = field.unknown_value_message("artst")
    assert message == "occupation='artst' is not in the training data and is ignored; did you mean 'artist'?"


def test_text_is_a_bag_of_words_that_occur_twice():
    field = profiles.fit("plot", ["a cat sleeps", "the Cat runs"], "text")
    assert field.values == ("cat",)


def test_chosen_columns_and_kinds():
    columns = {"age": ["1"], "zip": ["2"]}
    assert profiles.select_columns((), columns, "x") == {"age": None, "zip": None}
    assert profiles.select_columns(["zip:category"], columns, "x") == {"zip": "category"}
    with pytest.raises(ConfigError, match="x: no column 'aeg' for a profile; did you mean 'age'"):
        profiles.select_columns(["aeg"], columns, "x")
    with pytest.raises(ConfigError, match="unknown kind 'numbr' of a column; did you mean 'number'"):
        profiles.select_columns(["age:numbr"], columns, "x")


def test_a_column_of_words_cannot_be_a_number():
    message = r"^profile: job:number, but 'cook' … are not numbers; use job:category or job:text$"
    with pytest.raises(ConfigError, match=message):
        profiles.fit("job", ["", "cook", "artist"], "number")
    assert profiles.fit("age", ["", "cook", "30"], "number").mean == 30
    assert profiles.fit("age", ["", ""], "number").encode("").tolist()[-1] == 1.0


def test_features_of_all_fields_are_concatenated():
    fields = [profiles.fit("age", ["1", "2"]), profiles.fit("town", ["a", "b"])]
    encoded = profiles.encode(fields, [{"age": "1", "town": "a"}, {}])
    assert encoded.shape == (2, fields[0].width + fields[1].width)
    assert encoded[1].sum() == 2  # both fields are unknown
    assert profiles.encode([], [{}, {}]).shape == (2, 0)
