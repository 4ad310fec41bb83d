"""Columns of every kind become features; what is not known is a feature of its own."""

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
def test_kinds_are_found_out(cells, kind):
    assert profiles.guess_kind(cells) == kind


def test_a_number_has_its_size_and_its_part_of_the_range():
    field = profiles.fit("age", [str(age) for age in range(10, 90)])
    young, old, gap = (field.encode(cell) for cell in ("10", "89", ""))
    assert young[0] < 0 < old[0] and young[1] == 1 and old[-2] == 1
    assert gap.tolist() == [0.0] * (field.width - 1) + [1.0] and field.unknown_value_message("x") is not None


def test_values_share_a_length_of_one():
    field = profiles.fit("genres", ["a|b", "b|c", "b"])
    assert field.values[0] == "b"  # the most frequent first
    assert np.linalg.norm(field.encode("a|b")) == pytest.approx(1)
    assert field.encode("zzz")[-1] == 1


def test_a_value_never_seen_is_said_with_the_nearest():
    field = profiles.fit("occupation", ["artist", "writer"])
    assert field.unknown_value_message("artist") is None
    said = field.unknown_value_message("artst")
    assert said == "occupation='artst' was never seen, so it counts as not told; did you mean 'artist'?"


def test_text_is_a_bag_of_words_that_are_seen_twice():
    field = profiles.fit("plot", ["a cat sleeps", "the Cat runs"], "text")
    assert field.values == ("cat",)


def test_chosen_columns_and_kinds():
    columns = {"age": ["1"], "zip": ["2"]}
    assert profiles.select_columns((), columns, "x") == {"age": None, "zip": None}
    assert profiles.select_columns(["zip:category"], columns, "x") == {"zip": "category"}
    with pytest.raises(ConfigError, match="x: no column 'aeg' for a profile; did you mean 'age'"):
        profiles.select_columns(["aeg"], columns, "x")
    with pytest.raises(ConfigError, match="no kind 'numbr' of a column; did you mean 'number'"):
        profiles.select_columns(["age:numbr"], columns, "x")


def test_a_column_of_words_is_no_number_whatever_is_said():
    message = r"^profile: job:number, but 'cook' … are no numbers; say job:category or job:text$"
    with pytest.raises(ConfigError, match=message):
        profiles.fit("job", ["", "cook", "artist"], "number")
    assert profiles.fit("age", ["", "cook", "30"], "number").mean == 30
    assert profiles.fit("age", ["", ""], "number").encode("").tolist()[-1] == 1.0


def test_rows_side_by_side():
    fields = [profiles.fit("age", ["1", "2"]), profiles.fit("town", ["a", "b"])]
    encoded = profiles.encode(fields, [{"age": "1", "town": "a"}, {}])
    assert encoded.shape == (2, fields[0].width + fields[1].width)
    assert encoded[1].sum() == 2  # nothing is known, twice
    assert profiles.encode([], [{}, {}]).shape == (2, 0)
