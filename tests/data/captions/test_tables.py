"""Caption tables are detected by their first records."""

import pytest

from regard.data.captions.tables import is_caption_table


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("c.csv", "id,caption,image\n1,a dog,a.jpg\n", True),
        ("c.csv", "파일;설명\na.jpg;개, 한 마리\n", True),
        ("c.txt", "a.jpg#0\tA dog; running\n", True),
        ("c.csv", "name,text\nJohn,hello\n", False),  # names of people, not of images
        ("c.csv", "image,caption\n", False),
        ("c.csv", "text,label\ngood,1\n", False),
        ("c.txt", "a.jpg\n", False),
    ],
)
def test_caption_tables_are_detected_by_their_first_records(tmp_path, name, text, expected):
    path = tmp_path / name
    path.write_text(text)
    assert is_caption_table(path) is expected
