"""Every kind of image file is converted to 8-bit grey or colour, and conversions are reported."""

import io
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import DataError
from regard.data.checks import images
from regard.data.images.dataset import ImageSource, load_collection
from regard.data.images.image_files import encode_png, open_image, to_image


def saved(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def gradient(mode="RGB", size=(6, 5)):
    values = np.arange(size[0] * size[1] * 3, dtype=np.uint8).reshape(size[1], size[0], 3) * 2
    return Image.fromarray(values).convert(mode)


@pytest.mark.parametrize(
    ("data", "mode", "remarks"),
    [
        (saved(gradient("L")), "L", ()),
        (saved(gradient("1")), "L", ()),
        (saved(gradient()), "RGB", ()),
        (saved(gradient("RGBA")), "RGB", ("transparent: placed on a white background",)),
        (saved(gradient("LA")), "L", ("transparent: placed on a white background",)),
        (saved(gradient("P")), "RGB", ("colours from a palette: converted",)),
        (saved(gradient("CMYK"), "JPEG"), "RGB", ("colours as CMYK: converted to RGB",)),
        (saved(Image.fromarray(np.full((4, 4), 65535, np.uint16))), "L", ("16 bits a pixel: converted to 8",)),
    ],
)
def test_modes_are_converted_and_reported(data, mode, remarks):
    opened = open_image(data, name="x")
    assert opened.image.mode == mode and opened.remarks == remarks


def chunk(kind, data):
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def test_16_bit_colours_that_pillow_converts_itself():
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0))
    pixel = chunk(b"IDAT", zlib.compress(bytes([0, 255, 255, 128, 0, 0, 0])))
    opened = open_image(b"\x89PNG\r\n\x1a\n" + head + pixel + chunk(b"IEND", b""))
    assert opened.remarks == ("16 bits a pixel: converted to 8",) and opened.image.getpixel((0, 0)) == (255, 128, 0)


def test_values_survive():
    assert open_image(saved(gradient())).image.tobytes() == gradient().tobytes()
    deep = Image.fromarray((np.arange(256, dtype=np.uint16) * 257).reshape(16, 16))
    assert open_image(saved(deep)).image.tobytes() == bytes(range(256))


def test_transparent_is_white():
    clear = Image.new("RGBA", (2, 2), (10, 20, 30, 0))
    assert open_image(saved(clear)).image.getpixel((0, 0)) == (255, 255, 255)


def test_a_transparent_palette():
    image = Image.new("P", (2, 2), 0)
    image.putpalette([9, 9, 9, 200, 0, 0])
    opened = open_image(saved(image, transparency=0))
    assert opened.image.getpixel((1, 1)) == (255, 255, 255)
    assert opened.remarks == ("colours from a palette: converted", "transparent: placed on a white background")


def test_the_first_frame_of_an_animation():
    frames = [Image.new("RGB", (3, 3), colour) for colour in ("red", "blue")]
    opened = open_image(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert opened.image.getpixel((0, 0)) == (255, 0, 0)
    assert "animated: the first frame is used" in opened.remarks


def test_the_exif_orientation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6
    assert open_image(saved(gradient(), "JPEG", exif=exif)).image.size == (5, 6)


def test_floats_have_no_range():
    with pytest.raises(DataError, match=r"^x: pixels are 32-bit floats of unknown range; save it with 8"):
        open_image(saved(Image.fromarray(np.ones((3, 3), np.float32)), "TIFF"), name="x")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP"])
def test_truncated_files_are_read_or_refused_with_a_message(kind):
    """Files cut at every length are read completely, or refused with a message."""
    data = saved(gradient(size=(40, 30)), kind)
    complete, refused = open_image(data).image.tobytes(), set()
    for end in {*range(0, len(data), max(1, len(data) // 60)), len(data) - 40, len(data) - 3}:
        try:
            assert len(open_image(data[:end], name="x").image.tobytes()) == len(complete)
        except DataError as error:
            refused.add(str(error).partition(" (")[0])
    assert refused <= {"x: truncated or damaged", "x: not an image that Pillow can read; give PNG, JPEG, PGM …"}


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP"])
def test_corrupted_files_are_read_or_refused_with_a_message(kind):
    random, data, refused = np.random.default_rng(1), saved(gradient(size=(9, 7)), kind), ["x: "]
    for _ in range(200):
        changed = np.frombuffer(data, np.uint8).copy()
        changed[random.integers(len(data), size=3)] = random.integers(256, size=3)
        try:
            assert open_image(changed.tobytes(), name="x").image.size
        except DataError as error:
            refused.append(str(error))
    assert all(line.startswith("x: ") for line in refused)


def test_a_second_frame_without_a_width_is_damage():
    """Pillow's TIFF reader raises a TypeError here."""
    data = bytearray(saved(gradient(), "TIFF", save_all=True, append_images=[gradient()]))
    offset = data.rindex((256).to_bytes(2, "little") + (4).to_bytes(2, "little"))  # the tag of the width
    data[offset] = 99
    with pytest.raises(DataError, match=r"^x: truncated or damaged \(.*\); replace the file$"):
        open_image(bytes(data), name="x")


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(DataError, match=r"no\.png: no such file$"):
        open_image(tmp_path / "no.png")
    with pytest.raises(DataError, match=r"^x: not an image that Pillow can read; give PNG, JPEG, PGM …$"):
        open_image(b"hello", name="x")
    with pytest.raises(DataError, match=r"^x: truncated or damaged \(.*\); replace the file$"):
        open_image(saved(gradient(size=(40, 30)), "JPEG")[:600], name="x")


@pytest.mark.parametrize("side", [10_000, 30_000])
def test_a_decompression_bomb_is_not_opened(side):
    chunk = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    header = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    body = b"IDAT" + zlib.compress(b"")
    data = header + struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    with pytest.raises(DataError, match=r"^x: more than Pillow's limit of 89,478,485 pixels \(a decompression bomb"):
        open_image(data, name="x")


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_to_png_and_back(channels):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, channels), dtype=np.uint8)
    back = np.asarray(open_image(encode_png(pixels, scale=2)).image).reshape(8, 10, channels)
    assert (back[::2, ::2] == pixels).all() and (back[1::2, 1::2] == pixels).all()
    assert to_image(pixels).size == (5, 4)


def test_a_folder_is_not_an_image(tmp_path):
    with pytest.raises(DataError, match="a folder; give an image file that is in it"):
        open_image(tmp_path)


def heic():
    pillow_heif = pytest.importorskip("pillow_heif")
    buffer = io.BytesIO()
    pillow_heif.from_pillow(Image.new("RGB", (16, 8), (200, 30, 30))).save(buffer)
    return buffer.getvalue()


def test_photographs_of_telephones_are_read(tmp_path):
    (tmp_path / "photo.heic").write_bytes(heic())
    opened = open_image(tmp_path / "photo.heic")
    assert opened.image.size == (16, 8) and opened.image.mode == "RGB"


def test_without_the_library_a_heic_image_names_the_remedy(tmp_path, monkeypatch):
    data = heic()
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    for registry in ("OPEN", "EXTENSION"):
        plugins = {name: value for name, value in getattr(Image, registry).items() if "HEIF" not in (name, value)}
        monkeypatch.setattr(Image, registry, plugins)
    monkeypatch.setattr(Image, "ID", [name for name in Image.ID if name != "HEIF"])
    message = r"^a\.heic: a HEIC image, and pillow-heif is not installed; run: pip install 'regard\[vision\]'$"
    with pytest.raises(DataError, match=message):
        open_image(data, name="a.heic")
    (tmp_path / "cat").mkdir()
    for index in range(30):
        Image.new("RGB", (8, 8), (index, 0, 0)).save(tmp_path / "cat" / f"{index}.png")
    for index in range(5):
        (tmp_path / "cat" / f"x{index}.heic").write_bytes(data)
    (remark,) = load_collection(ImageSource(tmp_path)).remarks
    assert "pillow-heif is not installed" in remark and remark.endswith("skipped (5 images cannot be read)")
    findings = [finding for finding in images.check(tmp_path) if "pillow-heif" in finding.text]
    assert len(findings) == 5
