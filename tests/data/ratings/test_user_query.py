"""Queries: users, profiles and titles in various notations."""

import pytest

from regard.core.errors import DataError
from regard.data.builtin import films
from regard.data.ratings import dataset, user_query
from regard.data.ratings.dataset import DatasetOptions, EntityTable
from regard.data.ratings.profiles import Field


@pytest.fixture(scope="module")
def data():
    return dataset.build_collection(films.generate(30, 24, seed=3), DatasetOptions())


def items_with_titles(*titles):
    ids = tuple(str(1000 + i) for i in range(len(titles)))
    return EntityTable(ids, titles, (), {}, None, None)


ITEMS = items_with_titles(
    "Alien (1979)", "Postman, The (1997)", "Good, The Bad and The Ugly, The (1966)", "Alien (1999)"
)


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("postman", [1]),
        ("Postman (1997)", [1]),
        ("Alien (1979),The Postman (1997)", [0, 1]),
        ("postman, the (1997), alien (1979)", [1, 0]),
        ("Good, The Bad and The Ugly, The; 1001", [2, 1]),
        ("Alien (1999)\nAlien (1979)\nAlien (1999)", [3, 0]),
        ('"Postman, The (1997)","Alien (1979)"', [1, 0]),
    ],
)
def test_titles_with_commas_articles_ids(text, indices):
    assert user_query.parse_items(text, ITEMS) == indices


def test_a_value_of_a_profile_may_have_commas():
    town = Field("town", "category", ("Seoul, Korea", "Paris"))
    users = EntityTable((), (), (town, Field("age", "number")), {}, None, None)
    cells, remarks = user_query._parse_profile(users, "town=Seoul, Korea, age=30")
    assert cells == {"town": "Seoul, Korea", "age": "30"} and not remarks
    assert user_query._parse_profile(users, "age=30;\n town=Paris, ")[0] == {"age": "30", "town": "Paris"}
    with pytest.raises(DataError, match=r"profile: 'artist' is not of the form name=value, for example age=30"):
        user_query._parse_profile(users, "age=30, artist")


def test_titles_with_quotation_marks_plain_and_as_in_csv():
    items = items_with_titles('The "Big" One, Part 2', '"Quoted"')
    assert user_query.parse_items('The "Big" One, Part 2', items) == [0]
    assert user_query.parse_items('"The ""Big"" One, Part 2";"Quoted"', items) == [0, 1]


def test_an_unknown_title_gets_a_suggestion():
    with pytest.raises(DataError, match=r"no item 'Alein \(1979\)' in the data; did you mean 'Alien \(1979\)'"):
        user_query.parse_items("Alein (1979)", ITEMS)
    with pytest.raises(DataError, match="no item 'qqqq' in the data; give a title or an id"):
        user_query.parse_items("qqqq", ITEMS)


def test_an_unknown_user_is_refused(data):
    with pytest.raises(
        DataError, match=r"no user .99. in the data .*; describe a new user with profile=… and history=…"
    ):
        user_query.resolve(data, user="99", profile="", history="")


def test_an_incomplete_profile(data):
    query = user_query.resolve(data, user="", profile="age=30", history=data.items.titles[3])
    assert query.profile == {"age": "30"} and query.history == (3,) and query.remarks == ("not specified: occupation",)
    with pytest.raises(DataError, match="profile: 'age' is not of the form name=value"):
        user_query.resolve(data, user="", profile="age", history="")
    with pytest.raises(DataError, match="profile: users have no 'agee'; did you mean 'age'"):
        user_query.resolve(data, user="", profile="agee=3", history="")


def test_an_unknown_value_is_ignored(data):
    query = user_query.resolve(data, user="", profile="occupation=astronaut, age=old", history="")
    assert query.profile == {}
    assert "occupation='astronaut' is not in the training data" in query.remarks[0]
    assert query.remarks[1] == "age='old' is not a number and is ignored"


def test_forms_of_an_input():
    assert user_query.parse(" 42 ") == ("42", "", "")
    assert user_query.parse("age=3 | A; B") == ("", "age=3", "A; B")
    assert user_query.parse("| A") == ("", "", "A") and user_query.parse("") == ("", "", "")


def test_a_user_of_the_data_keeps_the_stored_history(data):
    query = user_query.resolve(data, user=data.users.ids[4], profile="", history="")
    assert query.user == 4 and query.uses_stored_history and query.profile == data.users.profile(4)
