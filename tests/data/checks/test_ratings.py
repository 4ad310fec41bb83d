"""Rating tables are detected and read as in training, and problems are reported."""

import pytest

from regard.data.checks import detect_layout, report
from regard.data.checks.ratings import has_ratings

ROWS = [(user, item, 1 + (user * item) % 5, 1_600_000_000 + 100 * item) for user in range(1, 5) for item in range(1, 7)]


def lines(separator=",", header="user,item,rating,time"):
    top = [header.replace(",", separator)] if header else []
    return "\n".join([*top, *(separator.join(map(str, row)) for row in ROWS)]) + "\n"


def write(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", lines()),
        ("r.csv", lines(";", "사용자,영화,평점,날짜")),
        ("r.tsv", lines("\t", "userId,movieId,score,timestamp")),
        ("r.csv", lines(header="")),  # only numbers
        ("r.csv", lines(header="buyer,thing,liking,bought")),  # numbers and times below unknown names
        ("r.csv", "user,item,rating,time\n"),
        ("r.dat", lines("::", "")),
        ("folder/ratings.dat", lines("::", "")),
        ("folder/interactions.tsv", lines("\t")),
        ("folder/u.item", "1|Film (1990)|x||\n"),
        ("folder/train.csv", lines()),
    ],
)
def test_ratings_are_detected_by_records_or_file_names(tmp_path, name, text):
    path = write(tmp_path / name, text)
    if name.endswith("ratings.dat"):
        write(path.parent / "movies.dat", "1::Film (1990)::Drama\n")
    assert detect_layout.detect_layout(path.parent if "/" in name else path) == "ratings"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("d.csv", "user,product,rating,review\na,b,5,a film that I would see again\nb,c,1,never in my life again\n"),
        ("d.csv", "text,label\ngood,1\nbad,0\n"),
        ("d.tsv", "1 2 3\t3 2 1\n4 5\t5 4\n"),  # sentences of numbers
        ("d.tsv", "12\t21\n13\t31\n"),
        ("d.txt", "no table\n"),
        ("d.csv", '"never closed\n'),
    ],
)
def test_other_tables_have_no_ratings(tmp_path, name, text):
    assert not has_ratings(write(tmp_path / name, text))


def test_valid_ratings_have_no_findings_and_a_train_command(tmp_path):
    path = write(tmp_path / "r.csv", lines())
    assert report.examine(path).findings == []
    assert report.examine(path).lines == [
        f"{path}: ratings of items by users",
        "24 ratings of 4 users and 6 items",
    ]
    assert report.examine(path).command == f"regard train recommendation data.path={path}"


def test_unknown_column_names_are_given_as_options(tmp_path):
    path = write(tmp_path / "r.csv", lines(header="buyer,thing,liking,bought"))
    options = {"user": "buyer", "item": "thing", "rating": "liking", "time": "bought"}
    assert str(report.examine(path).findings[0]).startswith(f"{path}: error: no column 'user'; did you mean")
    assert report.examine(path, options=options).findings == []
    assert report.examine(path, options=options).command.endswith(
        "data.user=buyer data.item=thing data.rating=liking data.time=bought"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("4,6,5", "4,,5"), "r.csv:25: error: item is empty; fill it in, or remove the line"),
        (("4,6,5", "4,6,nan"), "r.csv:25: error: rating='nan' is not a number; correct it, or remove the line"),
        (
            (",1600000600", ",31/12/2020"),
            "r.csv:7: error: time='31/12/2020' is neither a number nor a date; write seconds",
        ),
        (("4,6,5", "4,5,5"), "r.csv: warning: 1 ratings are of an item that the same user rated again"),
        (("4,6,5,", "4,6,5,7,"), "r.csv:25: error: 5 cells, but there are 4 columns; correct the line"),
        (("user,item,rating,time", "user,item,time,rating,"), "r.csv:2: error: 4 cells, but there are 5 columns"),
    ],
)
def test_errors_and_corrections_of_training_are_findings(tmp_path, change, message):
    path = write(tmp_path / "r.csv", lines().replace(*change))
    assert f"{tmp_path}/{message}" in "\n".join(map(str, report.examine(path).findings))


def test_too_few_ratings_of_each_user(tmp_path):
    path = write(tmp_path / "r.csv", "user,item,rating,time\n" + "".join(f"{n},{n},3,{n}\n" for n in range(5)))
    findings = [str(finding) for finding in report.examine(path).findings]
    assert findings == [
        f"{path}: error: no rating is held out for 'valid': users have too few ratings; give more, or choose split=time"
    ]


def test_unmatched_profiles_are_an_error_and_missing_ones_a_warning(tmp_path):
    write(tmp_path / "ratings.csv", lines())
    users = write(tmp_path / "users.csv", "user,age\n" + "".join(f"{n:03d},30\n" for n in range(1, 5)))
    text = f"{users}: error: contains none of the users that have ratings: '1' … in the ratings, "
    text += "'001' … in the table; write ids in the same way"
    assert [str(finding) for finding in report.examine(tmp_path).findings] == [text]
    write(users, "user,age\n1,30\n2,40\n2,41\n")
    assert [finding.text for finding in report.examine(tmp_path).findings] == [
        f"2 users with ratings are not in {users} ('3' …): no profile",
        f"1 users are repeated in {users}; the last line counts",
    ]
