"""Where published files are on this machine, and how they get there: system package, cache, download."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from enlist.errors import InputError

TIMEOUT = (5.0, 30.0)
"""Seconds to wait for a connection, and for the next bytes. There is only one attempt."""


@dataclasses.dataclass(frozen=True)
class Published:
    """Files that are published somewhere.

    title       of the data set, also its folder in the cache
    url         address of the folder that holds the files
    files       file name -> MD5 checksum, as published
    package     name of the Debian package, if there is one
    packaged    where that package puts the files

    >>> Published("mine", "https://example.org/data", {"a.bin": "0" * 32}).address("a.bin")
    'https://example.org/data/a.bin'
    """

    title: str
    url: str
    files: Mapping[str, str]
    package: str = ""
    packaged: Path | None = None

    def address(self, file: str, mirror: str | None = None) -> str:
        """Where to download one file."""
        return f"{(mirror or self.url).rstrip('/')}/{file}"


def cache_folder(title: str) -> Path:
    """Folder for downloaded files of this title: below `ENLIST_CACHE`, else below the platform's cache folder.

    >>> cache_folder("mnist").name
    'mnist'
    """
    named = os.environ.get("ENLIST_CACHE")
    if named:
        return Path(named).expanduser() / title
    import pooch

    return Path(pooch.os_cache("enlist")) / title


def download(url: str, target: Path, checksum: str) -> None:
    """Download one file and check its MD5; `target` appears only when it is complete and correct.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     download("http://127.0.0.1:9/a.bin", Path(folder, "a.bin"), "0" * 32)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: http://127.0.0.1:9/a.bin cannot be downloaded: ...
    """
    import pooch

    fetcher: Any = pooch.HTTPDownloader(timeout=TIMEOUT)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(url, f"md5:{checksum}", fname=target.name, path=target.parent, downloader=fetcher)
    except OSError as error:
        reason = str(error) if type(error).__name__ == "HTTPError" else type(error).__name__
        raise InputError(f"{url} cannot be downloaded: {reason}.") from None
    except ValueError:
        raise InputError(
            f"{url} is not the published file: its MD5 checksum is not {checksum}; nothing was kept."
        ) from None


def located(
    published: Published,
    lacking: Callable[[Path], list[str]],
    folder: Path | None,
    allowed: bool,
    mirror: str | None = None,
) -> Path:
    """The folder that holds the files: the user's, else the system package's, else the cache, filled if `allowed`.

    lacking   tells which files a folder lacks; none if it holds everything

    >>> files = Published("mine", "https://example.org/data", {"a.bin": "0" * 32})
    >>> located(files, lambda folder: ["a.bin"], Path("nowhere"), allowed=False)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: data set 'mine': folder nowhere does not exist. It should hold a.bin, published at ...
    """
    if folder is not None:
        chosen = folder.expanduser()
        missing = lacking(chosen)
        if not missing:
            return chosen
        state = f"lacks {', '.join(missing)}" if chosen.is_dir() else "does not exist"
        raise InputError(
            f"data set '{published.title}': folder {chosen} {state}. It should hold {', '.join(missing)}, published at "
            f"{published.url}. Without the key 'folder' the download cache is used.{_package(published)}"
        )
    cache = cache_folder(published.title)
    for place in (published.packaged, cache):
        if place is not None and not lacking(place):
            return place
    reason = "download = false"
    if allowed:
        try:
            for file, checksum in published.files.items():
                if not (cache / file).exists():
                    download(published.address(file, mirror), cache / file, checksum)
            missing = lacking(cache)
            if not missing:
                return cache
            reason = f"{cache} still lacks {', '.join(missing)}"
        except InputError as error:
            reason = str(error).rstrip(".")
    raise InputError(
        f"data set '{published.title}' is not on this machine ({reason}). Put {', '.join(published.files)} into "
        f"{cache}, or into a folder that the key 'folder' names; they are published at {published.url}."
        f"{_package(published)}"
    )


def _package(published: Published) -> str:
    return f" On Debian: apt install {published.package}." if published.package else ""
