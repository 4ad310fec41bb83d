"""Figures: PNG and PDF files with Korean text, and one-line errors."""

from __future__ import annotations

import examples
import pytest

from regard.core.errors import FileError, RegardError
from regard.inspection.figures import fonts, save
from regard.inspection.json_format import Inspection

image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

# Glyphs of missing fonts are drawn as boxes, with a warning each.
pytestmark = pytest.mark.filterwarnings("ignore:Glyph .* missing from font")


def test_a_png_is_a_picture_of_the_map_worth_looking_at_first(tmp_path):
    result = examples.translation(2, 2)
    save(result, tmp_path / "map.png")
    with image.open(tmp_path / "map.png") as picture:
        assert min(picture.size) > 300
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 20


def test_a_pdf_has_a_page_for_the_map_and_one_for_each_group(tmp_path):
    save(examples.translation(2, 2), tmp_path / "maps.PDF")
    content = (tmp_path / "maps.PDF").read_bytes()
    assert content.startswith(b"%PDF") and content.count(b"/Type /Page ") == 4


def test_long_maps_are_drawn_without_labels(tmp_path):
    save(examples.long(80, 1), tmp_path / "long.png")
    assert (tmp_path / "long.png").stat().st_size > 1000


def test_the_usual_font_comes_first():
    assert fonts()[0] == "DejaVu Sans"


def test_what_cannot_be_drawn_is_said(tmp_path):
    result = examples.translation(1, 1)
    with pytest.raises(RegardError, match=r"map\.gif: figures are saved as \.png or \.pdf, not \.gif"):
        save(result, tmp_path / "map.gif")
    with pytest.raises(RegardError, match=r"seq2seq has no attention map to draw"):
        save(Inspection("a", "seq2seq", "translation", {}, ()), tmp_path / "map.png")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FileError, match=r"map\.png: could not be written \("):
        save(result, tmp_path / "file" / "map.png")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
