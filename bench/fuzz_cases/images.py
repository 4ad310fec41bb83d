"""Corrupted images: files of every format that Pillow writes, arrays (idx, npz) and archives."""

from __future__ import annotations

import gzip
import io
import random
import struct
import tarfile
import zipfile
import zlib
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from fuzz_cases import Case, mutate
from regard.data.checks import images as checks_images
from regard.data.images.dataset import ImageSource, load_collection
from regard.data.images.image_files import open_image
from regard.data.images.loader import TargetShape

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".gif": "GIF", ".bmp": "BMP", ".tif": "TIFF", ".webp": "WEBP", ".pgm": "PPM"}
NAMES = (
    "cat/1.png",
    "dog/2.png",
    "train/cat/3.png",
    "test/dog/4.png",
    "../outside/5.png",
    "/tmp/6.png",
    "cat/x.txt",
    "7.png",
)


class Kind:
    """Files of images."""

    def prepare(self, work: Path) -> None:
        noise = np.random.default_rng(1).integers(0, 256, (24, 20, 3), dtype=np.uint8)
        self.files: dict[str, list[bytes]] = {suffix: [] for suffix in FORMATS}
        for suffix, kind in FORMATS.items():
            for mode in ("RGB", "L", "1", "P", "RGBA", "I;16", "CMYK", "LA", "F"):
                image = Image.fromarray(noise).convert("L" if mode == "I;16" else mode)
                target = io.BytesIO()
                try:
                    image.save(target, format=kind)
                except (OSError, ValueError, KeyError):
                    continue
                self.files[suffix].append(target.getvalue())
        self.arrays = np.random.default_rng(2).integers(0, 256, (6, 8, 8), dtype=np.uint8)

    def make(self, rng: random.Random, folder: Path) -> Case:
        target = folder / "images"
        target.mkdir()
        choice = rng.random()
        if choice < 0.55:
            suffix = rng.choice(list(FORMATS))
            path = target / f"1{suffix if rng.random() < 0.9 else '.png'}"
            path.write_bytes(self._image(rng, suffix))
            if rng.random() < 0.8:
                return Case(f"image {path.suffix}", partial(open_image, path))
            return _used(rng, f"folder with {path.suffix}", target)
        if choice < 0.75:
            return _used(rng, "archive", self._archive(rng, target))
        if choice < 0.87:
            return _used(rng, "idx", self._idx(rng, target))
        return _used(rng, "npz", self._npz(rng, target))

    def _image(self, rng: random.Random, suffix: str) -> bytes:
        data = rng.choice(self.files[suffix])
        if suffix == ".png" and rng.random() < 0.15:  # a wrong size with a correct checksum
            header = struct.pack(">II", *rng.choices([0, 1, 20, 60_000, 2**31 - 1, 2**31], k=2)) + data[24:29]
            return data[:16] + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + data[33:]
        return mutate.data(rng, data)

    def _archive(self, rng: random.Random, parent: Path) -> Path:
        target, names = io.BytesIO(), rng.sample(NAMES, rng.randrange(1, 6))
        kind = rng.choice([".zip", ".tar", ".tar.gz", ".tar.xz", ".tgz"])
        if kind == ".zip":
            with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
                for name in names:
                    packed.writestr(name, self._image(rng, ".png") if rng.random() < 0.95 else bytes(10**8))
        else:
            with tarfile.open(fileobj=target, mode=f"w:{ {'.tar': '', '.tar.xz': 'xz'}.get(kind, 'gz') }") as packed:
                for name in names:
                    data, member = self._image(rng, ".png"), tarfile.TarInfo(name)
                    member.size, member.linkname = len(data), "../outside/file"
                    member.type = rng.choices([tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE], [90, 5, 5])[0]
                    packed.addfile(member, io.BytesIO(data))
        path = parent / f"images{kind}"
        path.write_bytes(mutate.data(rng, target.getvalue()) if rng.random() < 0.4 else target.getvalue())
        return path

    def _idx(self, rng: random.Random, parent: Path) -> Path:
        shape = list(self.arrays.shape)
        if rng.random() < 0.4:
            shape[rng.randrange(3)] = rng.choice([0, 1, 2**31, 2**32 - 1, 9])
        images = (
            struct.pack(">HBB3I", 0, rng.choice([8, 8, 8, 0x0D]), rng.choice([3, 3, 3, 1, 255]), *shape)
            + self.arrays.tobytes()
        )
        labels = struct.pack(">HBBI", 0, 8, 1, 6) + bytes(range(6))
        for name, data in (("train-images-idx3-ubyte", images), ("train-labels-idx1-ubyte", labels)):
            spoilt = mutate.data(rng, data) if rng.random() < 0.5 else data
            packed = rng.random() < 0.3
            (parent / (name + ".gz" * packed)).write_bytes(gzip.compress(spoilt) if packed else spoilt)
        return parent

    def _npz(self, rng: random.Random, parent: Path) -> Path:
        odd = [
            np.array(["x"]),
            np.array(5.0),
            np.zeros((0, 0, 0)),
            np.full((2, 3, 3), np.nan),
            np.arange(6),
            np.array([1 + 2j]),
        ]
        names = ["x_train", "y_train", "x_test", "images", "labels", "../x", "x_train\n"]
        arrays = {"x_train": self.arrays, "y_train": np.arange(6)}
        for _ in range(rng.choice([0, 1, 2])):
            arrays[rng.choice(names)] = rng.choice(
                [*odd, self.arrays.astype(rng.choice(["f4", "i8", "?", "c8", "u2"]))]
            )
        target = io.BytesIO()
        np.savez_compressed(target, **arrays)
        data = target.getvalue()
        (parent / "data.npz").write_bytes(mutate.data(rng, data) if rng.random() < 0.5 else data)
        return parent


def _used(rng: random.Random, what: str, path: Path) -> Case:
    if rng.random() < 0.4:
        return Case(f"{what} -> check", lambda: checks_images.check(path))
    target_shape = TargetShape(8, 8, 1) if rng.random() < 0.7 else TargetShape()
    return Case(
        f"{what} -> collect",
        lambda: [part.all() for part in load_collection(ImageSource(path, target_shape=target_shape)).splits.values()],
    )
