"""Audio files (WAV, FLAC, OGG …) -> mono waveforms at one sampling rate."""

from __future__ import annotations

import io
import math
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.core.extras import require

SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif")
MIN_RATE, MAX_RATE = 1_000, 768_000  # samples per second
SILENCE = 1e-4  # peak of a recording that is silent
Waveform = NDArray[np.float32]  # (n) samples of one channel, -1 … 1


class Recording(NamedTuple):
    """A waveform at the sampling rate of the model, and remarks on its conversion."""

    name: str
    waveform: Waveform
    rate: int  # samples per second
    remarks: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Duration."""
        return len(self.waveform) / self.rate


def is_audio(name: str) -> bool:
    """Return True if the suffix of a name is that of an audio file."""
    return Path(name).suffix.lower() in SUFFIXES


def read_audio(path: Path, rate: int, *, max_seconds: float | None = None) -> Recording:
    """Read an audio file: channels are averaged, and the samples are resampled to `rate`."""
    try:
        with path.open("rb") as file:
            return decode_audio(file, path.name, rate, max_seconds=max_seconds)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); give the path of an audio file") from None


def decode_audio(file: BinaryIO, name: str, rate: int, *, max_seconds: float | None = None) -> Recording:
    """Decode the content of an audio file. The duration in the header is checked before any sample is decoded."""
    library: Any = require("soundfile", extra="speech")
    if not file.read(1):
        raise DataError(f"{name}: is empty; record it again")
    file.seek(0)
    try:
        with library.SoundFile(file) as sound:
            source_rate = int(sound.samplerate)
            if not MIN_RATE <= source_rate <= MAX_RATE:
                raise DataError(f"{name}: {source_rate:,} samples per second; convert it to 8,000 to 48,000")
            limit = -1 if max_seconds is None else int(max_seconds * source_rate)
            samples = sound.read(limit + 1 if limit >= 0 else -1, dtype="float32", always_2d=True)
            remaining = sound.seekable() and sound.frames > len(samples)
            seconds = (sound.frames if remaining else len(samples)) / source_rate
    except (library.LibsndfileError, RuntimeError, ValueError, TypeError) as error:
        raise DataError(f"{name}: not a readable audio file ({_reason(error)}); give WAV, FLAC or OGG") from None
    if max_seconds is not None and len(samples) > limit:
        raise DataError(f"{name}: {seconds:.1f} seconds; at most {max_seconds:g} are accepted: cut it into parts")
    if not len(samples):
        raise DataError(f"{name}: has no samples; record it again")
    if not np.isfinite(samples).all():
        raise DataError(f"{name}: contains NaN or infinite samples; record or convert it again")
    channels = samples.shape[1]
    remarks = ["silent: a transcript has no meaning"] if float(np.abs(samples).max()) < SILENCE else []
    remarks += [f"{channels} channels: averaged"] if channels > 1 else []
    remarks += [f"{source_rate} Hz: resampled to {rate}"] if source_rate != rate else []
    waveform = resample(samples.mean(axis=1, dtype=np.float32), source_rate, rate)
    return Recording(name, waveform, rate, tuple(remarks))


def resample(waveform: Waveform, source_rate: int, rate: int) -> Waveform:
    """Resample a waveform with a polyphase filter."""
    if source_rate == rate:
        return waveform
    common = math.gcd(source_rate, rate)
    up, down = rate // common, source_rate // common
    signal: Any = require("scipy.signal", extra="speech")
    resampled: Waveform = signal.resample_poly(waveform, up, down, window=_lowpass(max(up, down)))
    return resampled.astype(np.float32)


@lru_cache(maxsize=16)  # the design of a filter takes longer than its use on a short recording
def _lowpass(factor: int) -> NDArray[np.float32]:
    """Return the filter of `resample_poly` for the larger of both factors."""
    signal: Any = require("scipy.signal", extra="speech")
    coefficients: NDArray[np.float64] = signal.firwin(20 * factor + 1, 1 / factor, window=("kaiser", 5.0))
    return coefficients.astype(np.float32)


def encode_wav(waveform: Waveform, rate: int) -> bytes:
    """Waveform -> the bytes of a WAV file with 16 bits per sample."""
    buffer = io.BytesIO()
    require("soundfile", extra="speech").write(buffer, waveform, rate, format="WAV", subtype="PCM_16")
    return buffer.getvalue()


def _reason(error: Exception) -> str:
    text = str(error).removeprefix("Error opening ").partition(": ")[2] or str(error)
    return text.strip().rstrip(".")[:100]
