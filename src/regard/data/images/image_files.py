"""Read image files with Pillow as 8-bit grey or colour images; conversions are reported as remarks."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core import input_limits
from regard.core.errors import DataError, MissingExtra, RegardError
from regard.core.extras import require

Pixels = NDArray[np.uint8]  # (height width channels), or (n height width channels)
HEIF_SUFFIXES = (".heic", ".heif")  # photographs of telephones; Pillow reads them with pillow-heif
SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".bmp", ".gif", ".pgm", ".ppm", ".pbm", ".webp", ".tif", ".tiff"),
    *HEIF_SUFFIXES,
)
HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")  # bytes 8 to 12 of such a file
WHITE = (255, 255, 255, 255)


class LoadedImage(NamedTuple):
    """A Pillow image of mode L or RGB, and remarks on how it was converted."""

    image: Any  # PIL.Image.Image; Any, so that importing this module does not need Pillow
    remarks: tuple[str, ...] = ()


def open_image(source: Path | bytes, *, name: str = "") -> LoadedImage:
    """Open an image from a path or from the bytes of a file; `name` is its name in error messages."""
    library = require("PIL.Image", extra="vision")
    name = name or str(source)
    can_read_heif = enable_heif()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", library.DecompressionBombWarning)
            warnings.filterwarnings("ignore", category=UserWarning)  # about odd metadata
            with library.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
                input_limits.check_pixels(image.width, image.height, name)
                return convert_image(image, name)
    except (library.DecompressionBombWarning, library.DecompressionBombError):
        limit = f"{library.MAX_IMAGE_PIXELS:,} pixels"
        raise DataError(f"{name}: more than Pillow's limit of {limit} (a decompression bomb?); scale it down") from None
    except FileNotFoundError:
        raise DataError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{name}: a folder; give an image file that is in it") from None
    except library.UnidentifiedImageError:
        if not can_read_heif and _is_heif(source):
            raise DataError(
                f"{name}: a HEIC image, and pillow-heif is not installed; run: pip install 'regard[vision]'"
            ) from None
        raise DataError(f"{name}: not an image that Pillow can read; give PNG, JPEG, PGM …") from None
    except RegardError:
        raise
    except Exception as error:  # on damaged files Pillow's readers raise nearly anything: TypeError, struct.error, …
        raise DataError(f"{name}: truncated or damaged ({error}); replace the file") from None


def enable_heif() -> bool:
    """Let Pillow read HEIC images if pillow-heif is installed; return True if it is."""
    try:
        require("pillow_heif", extra="vision").register_heif_opener()
    except MissingExtra:
        return False
    return True


def _is_heif(source: Path | bytes) -> bool:
    """Return True if a file that Pillow could not identify starts like a HEIC image."""
    if isinstance(source, bytes):
        head = source[:12]
    else:
        with source.open("rb") as file:
            head = file.read(12)
    return head[4:8] == b"ftyp" and head[8:12] in HEIF_BRANDS


def convert_image(image: Any, name: str) -> LoadedImage:
    """Convert the first frame to mode L or RGB and apply the EXIF orientation."""
    operations = require("PIL.ImageOps", extra="vision")
    remarks = []
    if getattr(image, "n_frames", 1) > 1:
        remarks.append("animated: the first frame is used")
    tiles = getattr(image, "tile", ())
    is_16_bit = any(";16" in str(tile[-1]) for tile in tiles)  # Pillow itself reads 16-bit colours as 8-bit
    image.load()
    image = operations.exif_transpose(image)  # photographs that the camera stored rotated
    mode = image.mode
    if is_16_bit or mode.startswith("I"):
        remarks.append("16 bits a pixel: converted to 8")
    if mode.startswith("I"):
        image = _from_16_bits(image)
    elif mode == "F":
        raise DataError(f"{name}: pixels are 32-bit floats of unknown range; save it with 8 bits")
    elif mode == "P":
        remarks.append("colours from a palette: converted")
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    elif mode not in ("1", "L", "RGB", "LA", "La", "PA", "RGBA", "RGBa"):
        remarks.append(f"colours as {mode}: converted to RGB")
        image = image.convert("RGB")
    if "A" in image.mode or "a" in image.mode:
        remarks.append("transparent: placed on a white background")
        image = _on_white(image)
    return LoadedImage(image.convert("L") if image.mode in ("1", "L") else image.convert("RGB"), tuple(remarks))


def _from_16_bits(image: Any) -> Any:
    library = require("PIL.Image", extra="vision")
    return library.fromarray((np.asarray(image).astype(np.int64).clip(0, 65535) // 257).astype(np.uint8))


def _on_white(image: Any) -> Any:
    """Composite an image with an alpha channel on white; grey images stay grey."""
    library = require("PIL.Image", extra="vision")
    is_grey = image.mode in ("LA", "La")
    canvas = library.new("RGBA", image.size, WHITE)
    canvas.alpha_composite(image.convert("LA").convert("RGBA") if is_grey else image.convert("RGBA"))
    return canvas.convert("L" if is_grey else "RGB")


def to_image(pixels: Pixels) -> Any:
    """(h w 1) or (h w 3) -> Pillow image."""
    library = require("PIL.Image", extra="vision")
    return library.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def encode_png(pixels: Pixels, *, scale: int = 1) -> bytes:
    """(h w c) -> the bytes of a PNG file, enlarged by the integer `scale`."""
    buffer = io.BytesIO()
    to_image(pixels.repeat(scale, axis=0).repeat(scale, axis=1)).save(buffer, format="PNG")
    return buffer.getvalue()
