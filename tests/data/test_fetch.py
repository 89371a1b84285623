"""Where files are looked for, downloads with checksums from a server on this machine, and what failure says."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import http.server
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import requests

from enlist.data import CIFAR10, MNIST, FashionMNIST
from enlist.data import fetch as fetching
from enlist.data.fetch import Published, cache_folder, download, located
from enlist.errors import InputError
from enlist.streams import Streams

CONTENT = b"what was published"
CHECKSUM = hashlib.md5(CONTENT).hexdigest()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ENLIST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


def no_network(url: str, target: Path, checksum: str) -> None:
    raise InputError(f"{url} cannot be downloaded: ConnectionError.")


def holds(*files):
    return lambda folder: [file for file in files if not (folder / file).exists()]


def test_the_cache_follows_the_environment(cache, monkeypatch):
    assert cache_folder("mnist") == cache / "mnist"
    monkeypatch.delenv("ENLIST_CACHE")
    assert cache_folder("mnist").parent.name == "enlist"
    assert cache_folder("mnist").is_absolute()


def test_a_download_is_checked_and_kept(server, tmp_path):
    folder, url = server
    (folder / "a.bin").write_bytes(CONTENT)
    download(f"{url}/a.bin", tmp_path / "new" / "a.bin", CHECKSUM)
    assert (tmp_path / "new" / "a.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_keeps_nothing(server, tmp_path):
    folder, url = server
    (folder / "a.bin").write_bytes(CONTENT + b"?")
    with pytest.raises(
        InputError, match=rf"{url}/a\.bin is not the published file: its MD5 checksum is not {CHECKSUM}"
    ):
        download(f"{url}/a.bin", tmp_path / "new" / "a.bin", CHECKSUM)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_missing_file_and_a_dead_server_say_so_quickly(server, tmp_path):
    _, url = server
    with pytest.raises(InputError, match=r"a\.bin cannot be downloaded: 404"):
        download(f"{url}/a.bin", tmp_path / "a.bin", CHECKSUM)
    start = time.monotonic()
    with pytest.raises(InputError, match="cannot be downloaded: ConnectionError"):
        download("http://127.0.0.1:9/a.bin", tmp_path / "a.bin", CHECKSUM)
    assert time.monotonic() - start < 5


def test_there_is_one_attempt_with_short_timeouts(tmp_path, monkeypatch):
    calls = []

    def get(url, **settings):
        calls.append(settings["timeout"])
        raise requests.exceptions.ConnectTimeout("nobody there")

    monkeypatch.setattr(requests, "get", get)
    with pytest.raises(InputError, match="ConnectTimeout"):
        download("https://example.org/a.bin", tmp_path / "a.bin", CHECKSUM)
    assert calls == [fetching.TIMEOUT]
    assert max(fetching.TIMEOUT) <= 30


def test_files_are_downloaded_once_into_the_cache(server, cache):
    folder, url = server
    (folder / "a.bin").write_bytes(CONTENT)
    published = Published("mine", url, {"a.bin": CHECKSUM})
    assert located(published, holds("a.bin"), None, allowed=True) == cache / "mine"
    (folder / "a.bin").unlink()
    assert located(published, holds("a.bin"), None, allowed=True) == cache / "mine"
    assert located(published, holds("a.bin"), None, allowed=False) == cache / "mine"


def test_a_mirror_takes_the_place_of_the_published_address(server, cache):
    folder, url = server
    (folder / "a.bin").write_bytes(CONTENT)
    published = Published("mine", "http://127.0.0.1:9", {"a.bin": CHECKSUM})
    assert located(published, holds("a.bin"), None, allowed=True, mirror=url + "/") == cache / "mine"


def test_the_users_folder_comes_first_then_the_package_then_the_cache(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(fetching, "download", no_network)
    mine, system = tmp_path / "mine", tmp_path / "system"
    published = Published("t", "https://example.org", {"a.bin": CHECKSUM}, package="data-t", packaged=system)
    for folder in (mine, system, cache / "t"):
        folder.mkdir(parents=True)
        (folder / "a.bin").touch()
    assert located(published, holds("a.bin"), mine, allowed=True) == mine
    assert located(published, holds("a.bin"), None, allowed=True) == system
    (system / "a.bin").unlink()
    assert located(published, holds("a.bin"), None, allowed=True) == cache / "t"
    (mine / "a.bin").unlink()
    with pytest.raises(InputError, match=rf"folder {mine} lacks a\.bin\. .*apt install data-t"):
        located(published, holds("a.bin"), mine, allowed=True)


def test_without_a_network_the_error_says_which_files_go_where(cache, monkeypatch):
    monkeypatch.setattr(fetching, "download", no_network)
    with pytest.raises(InputError) as caught:
        MNIST().load(Streams(1))
    text = str(caught.value)
    assert "train-images-idx3-ubyte.gz cannot be downloaded: ConnectionError" in text
    for file in MNIST.published.files:
        assert file in text
    assert f"into {cache / 'mnist'}, or into a folder that the key 'folder' names" in text
    assert MNIST.published.url in text
    assert "apt" not in text


def test_the_error_names_the_debian_package(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(fetching, "download", no_network)
    elsewhere = dataclasses.replace(FashionMNIST.published, packaged=tmp_path / "none")
    monkeypatch.setattr(FashionMNIST, "published", elsewhere)
    with pytest.raises(InputError, match=r"On Debian: apt install dataset-fashion-mnist\.$"):
        FashionMNIST().load(Streams(1))


def test_download_false_never_tries(cache, monkeypatch):
    monkeypatch.setattr(fetching, "download", lambda *_: pytest.fail("it tried"))
    with pytest.raises(InputError, match=r"'cifar10' is not on this machine \(download = false\)"):
        CIFAR10(download=False).load(Streams(1))


def test_files_put_into_the_cache_by_hand_are_used(cache, monkeypatch):
    monkeypatch.setattr(fetching, "download", no_network)
    folder = cache / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for file in [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]:
        (folder / file).write_bytes(np.zeros(3073, np.uint8).tobytes())
    assert len(CIFAR10().load(Streams(1)).train) == 5


def test_published_checksums_are_md5():
    for kind in (MNIST, FashionMNIST, CIFAR10):
        for checksum in kind.published.files.values():
            assert len(bytes.fromhex(checksum)) == 16
