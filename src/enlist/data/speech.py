"""Speech Commands: one-second recordings of single words as log-mel spectrograms, each with its speaker."""

from __future__ import annotations

import functools
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pydantic
import scipy  # scipy.fft is loaded when it is used

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.data.base import FileOptions, divided, spread_of, standardised
from enlist.data.dataset import Dataset, Samples
from enlist.errors import InputError
from enlist.streams import Streams

RATE, WINDOW, HOP, POINTS, BINS = 16_000, 400, 160, 512, 40
FRAMES = RATE // HOP + 1
FLOOR = 1e-6
BLOCK = 256


@functools.cache
def mel_filters() -> FloatArray:
    """Weights (257, 40) of the power spectrum in each mel bin.

    Triangles whose corners lie evenly from 20 Hz to 8 kHz on the mel scale m(f) = 2595·log10(1 + f/700). Davis and
    Mermelstein, "Comparison of parametric representations for monosyllabic word recognition" (1980).

    >>> filters = mel_filters()
    >>> filters.shape, bool((filters.sum(axis=0) > 0).all())
    ((257, 40), True)
    """
    low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (20.0, RATE / 2))
    corners = 700 * (10 ** (np.linspace(low, high, BINS + 2) / 2595) - 1)
    frequencies = np.arange(POINTS // 2 + 1)[:, None] * RATE / POINTS
    left, peak, right = corners[:-2], corners[1:-1], corners[2:]
    rising, falling = (frequencies - left) / (peak - left), (right - frequencies) / (right - peak)
    weights: FloatArray = np.maximum(0.0, np.minimum(rising, falling))
    return weights


def log_mel(waves: AnyArray) -> AnyArray:
    """Log-mel spectrograms (n, 1, 40, 101) of recordings (n, 16000) in [−1, 1].

    Hann windows of 25 ms every 10 ms, centred (the ends are padded with silence), power spectrum of 512 points,
    `mel_filters`, natural logarithm of at least 1e−6.

    >>> log_mel(np.zeros((2, 16000), np.float32)).shape
    (2, 1, 40, 101)
    """
    padded = np.pad(waves.astype(np.float32), ((0, 0), (WINDOW // 2, WINDOW // 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW, axis=1)[:, ::HOP]
    hann = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)
    spectrum = np.abs(scipy.fft.rfft(windows * hann, POINTS, axis=2)) ** 2
    energy = spectrum @ mel_filters().astype(np.float32)
    features: AnyArray = np.log(np.maximum(energy, FLOOR)).transpose(0, 2, 1)[:, None]
    return features


def read_wave(path: Path) -> AnyArray:
    """One second, (16000,) float32 in [−1, 1], of a WAV file: mono, 16 bits, 16 kHz. Padded with silence, or cut.

    >>> read_wave(Path("nowhere.wav"))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: nowhere.wav cannot be read as WAV: [Errno 2] No such file or directory: 'nowhere.wav'.
    """
    try:
        with wave.open(str(path), "rb") as file:
            form = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            announced = file.getnframes()
            content = file.readframes(RATE)
    except (OSError, EOFError, wave.Error) as error:
        raise InputError(f"{path} cannot be read as WAV: {error or 'it is truncated'}.") from None
    if form != (1, 16, RATE):
        raise InputError(
            f"{path} has {form[0]} channels of {form[1]} bits at {form[2]} Hz; it needs 1 of 16 at {RATE}."
        )
    if len(content) != 2 * min(announced, RATE):
        raise InputError(f"{path} announces {announced} samples but ends early; it is truncated.")
    sound = np.zeros(RATE, np.float32)
    sound[: len(content) // 2] = np.frombuffer(content, "<i2") / np.float32(32768)
    return sound


class SpeechCommands(FileOptions):
    """Recordings of single words with their speakers as users, (1, 40, 101). Warden, "Speech Commands" (2018).

    The folder holds a subfolder of WAV files for each word; a speaker's id is the part of a file's name before
    `_nohash_`. Files that testing_list.txt or validation_list.txt name are for that purpose. Without testing_list.txt,
    `test_share` of the speakers are kept for testing. Spectrograms are scaled to mean 0 and standard deviation 1
    over the training samples.

    >>> SpeechCommands(folder="nowhere").load(Streams(1))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: data set 'speech-commands': nowhere holds no subfolders of WAV files. Name the folder ...
    """

    name: Literal["speech-commands"] = "speech-commands"
    folder: Path = pydantic.Field(description="Folder with a subfolder of WAV files for each word.")
    words: tuple[str, ...] = pydantic.Field((), description="Words to learn, one class each; all subfolders if empty.")
    test_share: float = pydantic.Field(
        0.1, gt=0, lt=1, description="Share of speakers kept for testing if there is no testing_list.txt."
    )

    def load(self, streams: Streams) -> Dataset:
        """Reads the recordings of every word in the order of their names."""
        folder = self.folder.expanduser()
        words = self._words(folder)
        files = [f"{word}/{path.name}" for word in words for path in sorted((folder / word).glob("*.wav"))]
        labels = np.array([words.index(file.partition("/")[0]) for file in files])
        speakers = np.array([Path(file).name.split("_nohash_")[0].removesuffix(".wav") for file in files])
        chosen_parts = self._parts(folder, files, speakers, streams)

        def samples(chosen: IntArray) -> Samples:
            return Samples(_features([folder / files[i] for i in chosen]), labels[chosen], speakers[chosen])

        raw = {part: samples(chosen) for part, chosen in chosen_parts.items() if len(chosen)}
        mean, spread = spread_of(raw["train"].x)
        scaled = {part: Samples(standardised(one.x, mean, spread), one.y, one.users) for part, one in raw.items()}
        return Dataset(self.name, classes=len(words), class_names=words, input_names=(), **scaled)

    def _words(self, folder: Path) -> tuple[str, ...]:
        there = [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
        known = sorted(word for word in there if not word.startswith(("_", ".")) and any((folder / word).glob("*.wav")))
        if not known:
            raise InputError(
                f"data set 'speech-commands': {folder} holds no subfolders of WAV files. Name the folder into which "
                "speech_commands_v0.02.tar.gz was unpacked (http://download.tensorflow.org/data)."
            )
        missing = [word for word in self.words if word not in known]
        if missing:
            raise InputError(
                f"data set 'speech-commands': {folder} has no recordings of {', '.join(missing)}; it has "
                f"{', '.join(known)}."
            )
        return self.words or tuple(known)

    def _parts(self, folder: Path, files: Sequence[str], speakers: AnyArray, streams: Streams) -> dict[str, IntArray]:
        validating = np.isin(files, _listed(folder / "validation_list.txt"))
        if (folder / "testing_list.txt").is_file():
            testing = np.isin(files, _listed(folder / "testing_list.txt"))
        else:
            people, owner = np.unique(speakers, return_inverse=True)
            _, taken = divided(np.zeros(len(people)), self.test_share, streams.generator("data test"), "speakers")
            testing = np.isin(owner, taken) & ~validating
        train, test = np.flatnonzero(~testing & ~validating), np.flatnonzero(testing)
        for part, chosen in (("training", train), ("testing", test)):
            if not len(chosen):
                raise InputError(
                    f"data set 'speech-commands': {folder} leaves no recordings for {part}; see its lists."
                )
        validation = np.flatnonzero(validating & ~testing)
        return {"train": train[self.drawn(len(train), streams)], "validation": validation, "test": test}


def _listed(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split() if path.is_file() else []


def _features(paths: Sequence[Path]) -> AnyArray:
    features = np.empty((len(paths), 1, BINS, FRAMES), np.float32)
    for start in range(0, len(paths), BLOCK):
        features[start : start + BLOCK] = log_mel(np.stack([read_wave(path) for path in paths[start : start + BLOCK]]))
    return features
