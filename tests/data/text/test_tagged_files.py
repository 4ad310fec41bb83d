import gzip

import pytest

from regard.core.errors import DataError
from regard.data.text import tagged_files

CONLL = "-DOCSTART- O\n\nAnna\tB-person\nlives\tO\nin\tO\nNew\tB-place\nYork\tI-place\n\nShe\tO\n"
KLUE = (
    "## 토큰 구분자 : \\t\n## id-1\t<아름:PS>이는 <파리:LC>\n"
    "아\tB-PS\n름\tI-PS\n이\tO\n는\tO\n \tO\n파\tB-LC\n리\tI-LC\n\n## id-2\t가\n가\tO\n"
)
KLP = "; 홍길동이 왔다.\r\n$<홍길동:PS>이 왔다.\r\n1\t홍길동\tNNP\tB_PS\r\n1\t이\tJKS\tO\r\n\r\n"


def write(path, text):
    path.write_bytes(text.encode())
    return path


def entity_texts(sentence):
    return [
        (sentence.text[start:stop], entity_type) for start, stop, entity_type in tagged_files.entity_spans(sentence)
    ]


def test_conll_columns(tmp_path):
    for text in (CONLL, CONLL.replace("\t", " "), CONLL.replace("\t", " NN x ")):
        first, second = tagged_files.read_sentences(write(tmp_path / "a.conll", text))
        assert first.text == "Anna lives in New York" and entity_texts(first) == [
            ("Anna", "person"),
            ("New York", "place"),
        ]
        assert [first.text[a:b] for a, b in first.units] == first.text.split()
        assert (first.origin, second.origin) == (f"{tmp_path}/a.conll:3", f"{tmp_path}/a.conll:9")


def test_klue_characters(tmp_path):
    first, second = tagged_files.read_sentences(write(tmp_path / "a.tsv", KLUE))
    assert first.text == "아름이는 파리" and entity_texts(first) == [("아름", "PS"), ("파리", "LC")]
    assert len(first.units) == 7 and second.text == "가"


def test_klp_lines(tmp_path):
    (sentence,) = tagged_files.read_sentences(write(tmp_path / "ner.train", KLP))
    assert sentence.text == "홍길동이 왔다." and entity_texts(sentence) == [("홍길동", "PS")]
    assert sentence.tags[:4] == ("B-PS", "I-PS", "I-PS", "O")


@pytest.mark.parametrize(
    "text", ["Anna\tI-p\nKim\tI-p\nBob\tB-p\n", "Anna\tB-p\nKim\tE-p\nBob\tS-p\n", "Anna\tB-p\nKim\tI-p\nBob\tB-p\n"]
)
def test_every_scheme_becomes_bio(tmp_path, text):
    (sentence,) = tagged_files.read_sentences(write(tmp_path / "a.conll", text))
    assert sentence.tags == ("B-p", "I-p", "B-p")


def test_a_folder_of_compressed_files_by_split(tmp_path):
    for name in ("train.conll.gz", "dev.conll.gz"):
        (tmp_path / name).write_bytes(gzip.compress(CONLL.encode()))
    splits = tagged_files.read(tmp_path)
    assert set(splits) == {"train", "valid"} and len(list(splits["valid"])) == 2
    assert list(tagged_files.read(tmp_path / "train.conll.gz")["train"]) == list(splits["train"])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conll", "Anna\tB-p\nKim\n", r"a\.conll:2: expected a word and its tag in two columns, got 'Kim'"),
        ("a.conll", "Anna\tB-p\n\tO\n", r"a\.conll:2: expected a word and its tag in two columns, got '\\tO'"),
        ("a.conll", "Anna\tX-p\n", r"a\.conll:1: 'X-p' is not a tag; expected O"),
        ("a.tsv", "## x\n아름\tO\n", r"a\.tsv:2: expected one character, got '아름'"),
        ("a.klp", "; 가나\n$<가:PS>다\n", r"a\.klp:2: without its <name:TYPE> this is not the text of line 1"),
        ("a.conll", "A\tB-p\n\nA\tS-p\n\nA\tB-p\nB\tI-p\n", r"a\.conll: the tags follow no scheme: 1 of 3"),
    ],
)
def test_errors_name_file_and_line(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        list(tagged_files.read_sentences(write(tmp_path / name, text)))


def test_an_i_tag_without_a_start_names_the_remedy(tmp_path):
    path = write(tmp_path / "a.conll", "A\tO\nB\tI-p\n")
    with pytest.raises(DataError, match=r"a\.conll:2: 'I-p' continues .* not started; data\.scheme='iob1' reads it"):
        list(tagged_files.read_sentences(path, scheme="bio"))
    assert next(iter(tagged_files.read_sentences(path, scheme="iob1"))).tags == ("O", "B-p")


def test_paths_without_data(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        tagged_files.read(tmp_path / "none")
    write(tmp_path / "notes.md", "x")
    with pytest.raises(DataError, match=r"no file named train, valid or test; it has notes\.md"):
        tagged_files.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("wnut17", {"train": 3394, "valid": 1009, "test": 644}),
        ("ko_ner_klp2016", {"train": 2928, "valid": 366, "test": 183}),
    ],
)
def test_the_shared_data_is_read_completely(shared_data, name, counts):
    splits = tagged_files.read(shared_data / name)
    assert {split: sum(1 for _ in rows) for split, rows in splits.items()} == counts
