import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import ConfigError, DataError
from regard.data.checks import detect_layout, report

FILES = {
    "pairs": {
        "train.en": "a\n",
        "train.tsv": "a dog runs here\tein Hund\nmore text here\tmehr\n",
        "a.jsonl": '{"en": "a", "de": "b"}\n',
        "broken.jsonl": "{\n",
        "named.csv": "영어,한국어\nGood morning,좋은 아침\n",
        "scripts.csv": "Good morning,좋은 아침\nThank you,고마워요\n",
    },
    "documents": {
        "train.tsv": "id\tdocument\tlabel\n1\ta\t0\n",
        "bare.tsv": "".join(f"{i % 2}\ttext number {i}\n" for i in range(40)),
        "a.csv": "x,y\n1,2\n",
        "ko.csv": "라벨,문장\n긍정,정말 좋은 영화\n부정,시간이 아까웠다\n",
        "b.jsonl": '{"text": "a", "label": "b"}\n',
    },
    "tagged": {
        "a.conll": "x",
        "train.tsv": "A\tB-p\n\nB\tO\n",
        "klue.tsv": "## x\n가\tO\n",
        "ner.txt": "; 가\n$가\n",
        "spaces.txt": "A NN B-p\n\nB NN O\n",
    },
}


@pytest.mark.parametrize(("layout", "name"), [(layout, name) for layout, names in FILES.items() for name in names])
def test_the_layout_of_a_file_is_detected(tmp_path, layout, name):
    (tmp_path / name).write_text(FILES[layout][name])
    assert detect_layout.detect_layout(tmp_path / name) == layout


def test_the_layout_of_a_folder_is_detected(tmp_path):
    for layout in ("documents", "tagged"):
        folder = tmp_path / layout
        folder.mkdir()
        (folder / "train.tsv").write_text(FILES[layout]["train.tsv"])
        assert detect_layout.detect_layout(folder) == layout
    (tmp_path / "classes" / "pos").mkdir(parents=True)
    (tmp_path / "classes" / "pos" / "1.txt").write_text("good")
    assert detect_layout.detect_layout(tmp_path / "classes") == "documents"
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "train.en").write_text("a")
    assert detect_layout.detect_layout(tmp_path / "pairs") == "pairs"


def test_the_check_of_the_layout_is_used(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("A\n")
    assert [str(finding) for finding in report.examine(path).findings] == [
        f"{path}:1: error: expected a word and its tag in two columns, got 'A'"
    ]
    assert report.examine(path, "pairs").findings != report.examine(path).findings


def test_unknown_layouts_and_paths_are_an_error(tmp_path):
    with pytest.raises(ConfigError, match="no layout 'tags'; did you mean 'tagged'"):
        report.examine(tmp_path, "tags")
    with pytest.raises(DataError, match="no such file or folder"):
        report.examine(tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        *((name, "documents") for name in ("imdb", "nsmc", "movie_reviews", "ko_chatbot")),
        *((name, "tagged") for name in ("wnut17", "klue_ner", "ko_ner_klp2016")),
        *((name, "pairs") for name in ("multi30k", "ko_en_pydocs", "ko_en_tatoeba")),
    ],
)
def test_the_shared_data(shared_data, name, layout):
    assert detect_layout.detect_layout(shared_data / name) == layout


def test_images_are_detected(tmp_path):
    pixels = np.zeros((4, 4), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "one.png")
    np.savez(tmp_path / "some.npz", images=pixels[None])
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        archive.write(tmp_path / "one.png", "cat/one.png")
    folder = tmp_path / "folder" / "cat"
    folder.mkdir(parents=True)
    (folder / "one.png").write_bytes((tmp_path / "one.png").read_bytes())
    for path in (tmp_path / "one.png", tmp_path / "some.npz", tmp_path / "many.zip", tmp_path / "folder"):
        assert detect_layout.detect_layout(path) == "images"
        assert report.examine(path).findings == []
    (folder / "two.png").write_bytes(b"no image")
    (finding,) = report.examine(tmp_path / "folder").findings
    assert str(finding).endswith("not an image that Pillow can read; give PNG, JPEG, PGM …")


def test_the_train_command_has_the_detected_settings(tmp_path):
    bare, named = tmp_path / "bare.csv", tmp_path / "named.tsv"
    bare.write_text("".join(f"some text number {i},{'abc'[i % 3]}\n" for i in range(60)))
    assert report.examine(bare).findings == []
    assert report.examine(bare).command == f"regard train classification data.path={bare} data.label=2 data.text=1"
    assert report.examine(bare, "pairs").command == f"regard train translation data.path={bare}"
    named.write_text("German\tFrench\nein Hund\tun chien\n")
    assert report.examine(named).command == f"regard train translation data.path={named} data.source=de data.target=fr"
    options = {"header": False, "columns": ["other", "ko"], "source": "my language"}
    assert report.examine(named, "pairs", options).command == (
        f"regard train translation data.path={named} data.header=false data.columns=other,ko 'data.source=my language'"
    )


def test_columns_of_other_names_are_proposed_by_name(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("Bewertung,Klasse\n" + "".join(f"텍스트 하나 {i},{i % 2}\n" for i in range(60)), encoding="utf-8")
    result = report.examine(path)
    assert result.findings == []
    assert result.command == f"regard train classification data.path={path} data.label=Klasse data.text=Bewertung"
    assert result.lines[1:] == ["columns: text Bewertung, label Klasse", "first document: 텍스트 하나 0 -> 0"]
    (finding,) = report.examine(path, options={"label": 2, "text": 1}).findings
    assert finding.text == (
        "is its first line, 'Bewertung', 'Klasse', a header? Set data.label=2 data.text=1 and "
        "data.header=true if it is a header, data.header=false if it is a document"
    )
    assert report.examine(path, options={"label": 2, "text": 1, "header": True}).findings == []
