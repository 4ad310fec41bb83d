"""Caption files in every format, and errors of invalid files."""

import gzip
import json
import unicodedata

import pytest

from regard.core.errors import DataError
from regard.data.captions.files import has_captions, joined_remarks, read
from regard.data.captions.tables import Caption

FIRST, SECOND = Caption("a.jpg", "A dog, running", None), Caption("a.jpg", "a brown dog", None)


def write(folder, name, text):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("captions.tsv", "a.jpg\tA dog, running\na.jpg\ta brown dog\n"),
        ("captions.tsv.gz", "image\tcaption\na.jpg\tA dog, running\n\na.jpg\ta brown dog\n"),
        ("numbered.tsv", "a.jpg\t0\tA dog, running\na.jpg\t1\ta brown dog\n"),
        ("Flickr8k.token.txt", "a.jpg#0\tA dog, running\na.jpg#1\ta brown dog\n"),
        ("captions.txt", 'image,caption\na.jpg,"A dog, running"\na.jpg,a brown dog\n'),
        ("plain.csv", "a.jpg,A dog, running\na.jpg,a brown dog\n"),
        ("excel.csv", 'sep=;\r\n파일;설명\r\na.jpg;"A dog,\r\nrunning"\r\na.jpg;a brown dog\r\n'),
        ("other.csv", '\ufeffid,caption,image\n1,"A dog, running",a.jpg\n2,a brown dog,.\\a.jpg\n'),
        ("more.csv", 'image,caption,source\na.jpg,"A dog, running",me\na.jpg,a brown dog,you\n'),
        ("results.csv", "image_name| comment_number| comment\na.jpg| 0| A dog, running\na.jpg| 1| a brown dog\n"),
        ("list.json", '[{"image": "a.jpg", "caption": ["A dog, running", "a brown dog"]}]'),
        ("named.json", '{"a.jpg": ["A dog,\\nrunning", "a brown dog"]}'),
        (
            "metadata.jsonl",
            '{"file_name": "a.jpg", "text": "A dog, running"}\n\n{"file_name": "a.jpg", "text": "a brown dog"}\n',
        ),
    ],
)
def test_tables(tmp_path, name, text):
    assert read(write(tmp_path, name, text)) == [FIRST, SECOND]
    write(tmp_path, "README.txt", "Where these images come from.\n")
    assert read(tmp_path) == [FIRST, SECOND]


def test_a_split_column_is_not_part_of_the_caption(tmp_path):
    rows = "a.jpg,one,train\nb.jpg,two,val\nc.jpg,three,TEST\nd.jpg,four,\n"
    captions = read(write(tmp_path, "captions.csv", "image,caption,split\n" + rows))
    assert [(caption.text, caption.split) for caption in captions] == [
        ("one", "train"),
        ("two", "valid"),
        ("three", "test"),
        ("four", None),
    ]


def test_image_names_are_normalized(tmp_path):
    decomposed = unicodedata.normalize("NFD", "사진/고양이.jpg")
    captions = read(write(tmp_path, "c.tsv", f"사진\\고양이.jpg\tone\n./{decomposed}\ttwo\n"))
    assert {caption.image for caption in captions} == {"사진/고양이.jpg"}


def test_a_folder_with_the_layout_of_coco(tmp_path):
    table = {"images": [{"id": 7, "file_name": "a.jpg"}], "annotations": [{"image_id": 7, "caption": "A dog"}]}
    (tmp_path / "annotations").mkdir()
    write(tmp_path, "annotations/captions_train2014.json", json.dumps(table))
    write(tmp_path, "annotations/instances_train2014.json", json.dumps({"images": [], "annotations": [{"bbox": []}]}))
    write(tmp_path, "._captions.csv", "added by macOS")
    assert has_captions(tmp_path)
    assert read(tmp_path) == [Caption("a.jpg", "A dog", "train")]


def test_karpathy(tmp_path):
    rows = [
        {"filename": "a.jpg", "split": "train", "sentences": [{"raw": "A dog."}, {"tokens": ["a", "dog"]}]},
        {"filename": "b.jpg", "filepath": "val2014", "split": "restval", "sentences": [{"raw": "B"}]},
        {"filename": "c.jpg", "split": "val", "sentences": [{"raw": "C"}]},
    ]
    captions = read(write(tmp_path, "dataset_flickr8k.json", json.dumps({"images": rows})))
    assert captions == [
        Caption("a.jpg", "A dog.", "train"),
        Caption("a.jpg", "a dog", "train"),
        Caption("val2014/b.jpg", "B", "train"),
        Caption("c.jpg", "C", "valid"),
    ]


def test_coco(tmp_path):
    table = {
        "images": [{"id": 7, "file_name": "a.jpg"}],
        "annotations": [{"image_id": 7, "caption": "A dog"}, {"image_id": 8, "caption": "no image"}],
    }
    captions = read(write(tmp_path, "captions_val2014.json", json.dumps(table)))
    assert captions == [Caption("a.jpg", "A dog", "valid"), Caption("image 8", "no image", "valid")]


def test_splits_by_file_name_and_by_lists_of_images(tmp_path):
    write(tmp_path, "captions_train.tsv", "a.jpg\tone\n")
    write(tmp_path, "captions_test_first_half.tsv", "b.jpg\ttwo\n")
    assert [caption.split for caption in read(tmp_path)] == ["test", "train"]
    folder = tmp_path / "official"
    folder.mkdir()
    write(folder, "Flickr8k.token.txt", "a.jpg#0\tone\nb.jpg#0\ttwo\nc.jpg#0\tthree\n")
    write(folder, "Flickr_8k.trainImages.txt", "a.jpg\n")
    write(folder, "Flickr_8k.devImages.txt", "b.jpg\n")
    assert [caption.split for caption in read(folder)] == ["train", "valid", None]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "notes.txt",
            "nothing\n",
            "no captions; provide image<TAB>caption as .tsv, image,caption as .csv, or a .json file of COCO",
        ),
        ("c.tsv", "a.jpg\tone\nb.jpg\n", "line 2: one column 'b.jpg'; provide the image and its caption"),
        (
            "c.csv",
            "image,caption,id\na.jpg,a dog, running,1\n",
            r"c.csv:2: 4 cells, but there are 3 columns; captions",
        ),
        ("c.csv", "image,caption,split\na.jpg,a dog,tset\n", "c.csv:2: no split 'tset'; did you mean 'test'?"),
        ("c.csv", 'image,caption\na.jpg,"a dog\n', "c.csv:2: not CSV: a quotation mark in the record that starts here"),
        ("c.json", "[1, 2]", "neither Karpathy's JSON"),
        ("c.json", '{"images": [{"filename": "a.jpg"}]}', r"images, annotations\): KeyError\('sentences'\)"),
        ("c.json", "{", "neither Karpathy's JSON"),
        ("c.json", '[{"image": "a.jpg", "said": "x"}]', r"not a list of images with captions.*KeyError\('caption'\)"),
        ("c.json", '[{"image": "a.jpg", "text": "x", "split": "tset"}]', r"KeyError\('tset'\)"),
    ],
)
def test_an_invalid_caption_file_is_an_error(tmp_path, name, text, message):
    write(tmp_path, name, text)
    with pytest.raises(DataError, match=message):
        read(tmp_path)


def test_other_records_are_not_captions(tmp_path):
    assert not has_captions(write(tmp_path, "a.jsonl", '{"text": "a film", "label": "good"}\n'))
    assert not has_captions(write(tmp_path, "b.json", '[{"name": "Kim", "text": "hello"}]'))
    labels = write(tmp_path, "c.jsonl", '{"file_name": "a.jpg", "label": 3}\n')
    assert not has_captions(labels)
    (tmp_path / "b.json").unlink()
    with pytest.raises(DataError, match="no captions; provide image<TAB>caption"):
        read(tmp_path)


def test_a_split_of_each_record(tmp_path):
    rows = [{"image": f"{name}.jpg", "caption": name, "split": name} for name in ("train", "val", "test", "restval")]
    write(tmp_path, "c.json", json.dumps(rows))
    assert [caption.split for caption in read(tmp_path)] == ["train", "valid", "test", "train"]


def test_several_files_are_joined_and_reported(tmp_path):
    for name in ("one.tsv", "two.tsv"):
        (tmp_path / name).write_text(f"{name}.jpg\ta dog\n", encoding="utf-8")
    assert [caption.image for caption in read(tmp_path)] == ["one.tsv.jpg", "two.tsv.jpg"]
    assert joined_remarks(tmp_path) == (f"{tmp_path}: 2 files are joined: one.tsv, two.tsv",)
    assert joined_remarks(tmp_path / "one.tsv") == ()
