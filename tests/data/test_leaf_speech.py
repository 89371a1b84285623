"""LEAF's JSON and Speech Commands' WAV files, written small in the true formats."""

from __future__ import annotations

import json
import wave

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from enlist.data import FEMNIST, SpeechCommands
from enlist.data.speech import HOP, RATE, WINDOW, log_mel, mel_filters, read_wave
from enlist.errors import InputError
from enlist.streams import Streams

STREAMS = Streams(5)


def leaf(writers, seed=0, **changes):
    rng = np.random.default_rng(seed)
    data = {
        writer: {"x": rng.random((count, 784)).round(3).tolist(), "y": [k % 62 for k in range(count)]}
        for writer, count in writers.items()
    }
    return {"users": list(writers), "num_samples": list(writers.values()), "user_data": data, **changes}


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_femnist_with_train_and_test_folders(tmp_path):
    first = leaf({"f0_01": 3, "f0_02": 2})
    put(tmp_path / "train" / "all_data_0.json", first)
    put(tmp_path / "train" / "all_data_1.json", leaf({"f0_03": 4}, seed=1))
    put(tmp_path / "test" / "all_data_0.json", leaf({"f0_01": 1}, seed=2))
    dataset = FEMNIST(folder=tmp_path).load(STREAMS)
    assert (dataset.shape, dataset.classes) == ((1, 28, 28), 62)
    assert (dataset.class_names[9], dataset.class_names[10], dataset.class_names[61]) == ("9", "A", "z")
    assert_array_equal(dataset.train.users, ["f0_01"] * 3 + ["f0_02"] * 2 + ["f0_03"] * 4)
    assert_array_equal(dataset.train.y, [0, 1, 2, 0, 1, 0, 1, 2, 3])
    expected = (np.array(first["user_data"]["f0_02"]["x"]).reshape(2, 28, 28) - 0.9637) / 0.1591
    assert_allclose(dataset.train.x[3:5, 0], expected, atol=1e-4)
    assert len(dataset.test) == 1
    assert len(FEMNIST(folder=tmp_path, limit=3).load(STREAMS).train) == 3


def test_femnist_in_one_folder_is_split_within_writers(tmp_path):
    put(tmp_path / "all.json", leaf({"a": 10, "b": 20, "c": 10}))
    dataset = FEMNIST(folder=tmp_path, test_share=0.2).load(STREAMS)
    assert {user: int((dataset.test.users == user).sum()) for user in "abc"} == {"a": 2, "b": 4, "c": 2}
    assert len(dataset.train) == 32
    assert_array_equal(dataset.test.x, FEMNIST(folder=tmp_path, test_share=0.2).load(Streams(5)).test.x)


def test_femnist_with_one_half_missing_says_so(tmp_path):
    put(tmp_path / "train" / "all.json", leaf({"a": 2}))
    with pytest.raises(InputError, match=r"nor do train/ and test/ in it"):
        FEMNIST(folder=tmp_path).load(STREAMS)


def damaged(**of_user):
    content = leaf({"a": 2})
    content["user_data"]["a"].update(of_user)
    return content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (json.dumps(leaf({"a": 2}))[:-40], "cannot be read as JSON"),
        ("[]", "needs the keys users, num_samples and user_data"),
        ({"users": [], "num_samples": []}, "needs the keys"),
        (leaf({"a": 2}, users=["a", "b"]), "as many num_samples as users"),
        (leaf({"a": 2}, users=["b"]), "no x and y for user 'b'"),
        (leaf({"a": 2}, num_samples=[3]), "announces 3 samples of user 'a' but holds 2"),
        (leaf({"a": 2}, user_data=[]), "needs a table user_data"),
        (damaged(y=[0, 62]), "labels go from 0 to 62; allowed are 0 to 61"),
        (damaged(y=[-1, 0]), "labels go from -1 to 0"),
        (damaged(y=[0.5, 1]), "not whole"),
        (damaged(y=[0]), "needs .n, 784. and .n,."),
        (damaged(x=[[0.5], [0.5]]), r"x has shape \(2, 1\)"),
        (damaged(x=[[0.5], [0.5, 1.0]]), "ragged"),
        (damaged(x=[["a"] * 784] * 2), "holds no numbers"),
        (damaged(x=[[float("nan")] * 784] * 2), "holds NaN"),
    ],
)
def test_damaged_leaf_files_are_named(tmp_path, content, words):
    put(tmp_path / "all.json", content)
    with pytest.raises(InputError, match=words) as caught:
        FEMNIST(folder=tmp_path).load(STREAMS)
    assert str(tmp_path / "all.json") in str(caught.value)


def sound(path, samples, rate=RATE, channels=1, width=2):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.astype({1: np.uint8, 2: "<i2"}[width]).tobytes())


def tone(hertz, count=RATE):
    return 10_000 * np.sin(2 * np.pi * hertz * np.arange(count) / RATE)


@pytest.fixture
def folder(tmp_path):
    for word, hertz in (("yes", 440), ("no", 1000), ("up", 3000)):
        for speaker in ("0a7c2a8d", "1b4c9b89", "2c604275", "3d53244b"):
            for take in range(2):
                sound(tmp_path / word / f"{speaker}_nohash_{take}.wav", tone(hertz, RATE - 1000 * take))
    sound(tmp_path / "_background_noise_" / "pink.wav", tone(50, 3 * RATE))
    (tmp_path / "LICENSE").write_text("CC-BY")
    return tmp_path


def test_speech_with_the_published_lists(folder):
    (folder / "testing_list.txt").write_text("yes/0a7c2a8d_nohash_0.wav\nno/0a7c2a8d_nohash_1.wav\n")
    (folder / "validation_list.txt").write_text("up/1b4c9b89_nohash_0.wav\n")
    dataset = SpeechCommands(folder=folder).load(STREAMS)
    assert (dataset.shape, dataset.classes, dataset.class_names) == ((1, 40, 101), 3, ("no", "up", "yes"))
    assert (len(dataset.train), len(dataset.test), len(dataset.validation)) == (21, 2, 1)
    assert_array_equal(dataset.test.y, [0, 2])
    assert_array_equal(dataset.test.users, ["0a7c2a8d", "0a7c2a8d"])
    assert_array_equal(dataset.validation.users, ["1b4c9b89"])
    assert dataset.train.x.mean() == pytest.approx(0, abs=1e-4)
    assert dataset.train.x.std() == pytest.approx(1, abs=1e-4)


def test_speech_without_lists_keeps_speakers_apart(folder):
    dataset = SpeechCommands(folder=folder, test_share=0.25, words=("yes", "no")).load(STREAMS)
    assert dataset.class_names == ("yes", "no")
    assert dataset.validation is None
    assert (len(dataset.train), len(dataset.test)) == (12, 4)
    assert len(set(dataset.test.users)) == 1
    assert not set(dataset.test.users) & set(dataset.train.users)
    assert len(SpeechCommands(folder=folder, test_share=0.25, limit=5).load(STREAMS).train) == 5


def test_speech_with_too_few_speakers_says_so(folder):
    with pytest.raises(InputError, match=r"a share of 0\.1 of 4 speakers leaves one side empty"):
        SpeechCommands(folder=folder).load(STREAMS)


def test_speech_names_words_that_are_not_there(folder):
    with pytest.raises(InputError, match="no recordings of maybe; it has no, up, yes"):
        SpeechCommands(folder=folder, words=("yes", "maybe")).load(STREAMS)


def test_speech_lists_that_leave_nothing(folder):
    (folder / "testing_list.txt").write_text("")
    with pytest.raises(InputError, match="leaves no recordings for testing"):
        SpeechCommands(folder=folder).load(STREAMS)


def test_recordings_are_padded_or_cut_to_a_second(tmp_path):
    sound(tmp_path / "short.wav", np.full(100, 16384))
    sound(tmp_path / "long.wav", np.full(RATE + 500, -32768))
    short, long = read_wave(tmp_path / "short.wav"), read_wave(tmp_path / "long.wav")
    assert_array_equal(short, np.r_[np.full(100, 0.5), np.zeros(RATE - 100)])
    assert_array_equal(long, np.full(RATE, -1.0))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate": 8000}, "1 channels of 16 bits at 8000 Hz"),
        ({"channels": 2}, "2 channels"),
        ({"width": 1}, "8 bits"),
    ],
)
def test_recordings_of_another_kind_are_refused(tmp_path, settings, words):
    sound(tmp_path / "odd.wav", np.zeros(400), **settings)
    with pytest.raises(InputError, match=rf"odd\.wav has .*{words}"):
        read_wave(tmp_path / "odd.wav")


@pytest.mark.parametrize("keep", [0, 10, 30, 100])
def test_damaged_recordings_are_named(folder, keep):
    path = folder / "yes" / "0a7c2a8d_nohash_0.wav"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=rf"{path} (cannot be read as WAV|announces 16000 samples but ends early)"):
        SpeechCommands(folder=folder, test_share=0.5).load(STREAMS)


def test_log_mel_agrees_with_a_frame_by_frame_count():
    rng = np.random.default_rng(2)
    waves = rng.uniform(-1, 1, (2, RATE)).astype(np.float32)
    features = log_mel(waves)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    padded = np.r_[np.zeros(WINDOW // 2), waves[1], np.zeros(WINDOW // 2)]
    for frame in (0, 37, 100):
        power = abs(np.fft.rfft(padded[frame * HOP : frame * HOP + WINDOW] * hann, 512)) ** 2
        assert_allclose(features[1, 0, :, frame], np.log(power @ mel_filters()), rtol=1e-3, atol=1e-3)


def test_a_tone_falls_into_its_mel_bin():
    for hertz in (300.0, 1000.0, 4000.0):
        mel = 2595 * np.log10(1 + hertz / 700)
        low, high = (2595 * np.log10(1 + edge / 700) for edge in (20, 8000))
        expected = (mel - low) / (high - low) * 41 - 1
        loudest = log_mel(tone(hertz)[None] / 32768)[0, 0, :, 50].argmax()
        assert abs(loudest - expected) <= 1


def test_silence_stays_finite():
    assert_allclose(log_mel(np.zeros((1, RATE))), np.log(1e-6), rtol=1e-6)
