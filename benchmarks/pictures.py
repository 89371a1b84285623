"""Charts as small PNG files: at most 256 colours, and compressed as far as it goes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from scipy.spatial import cKDTree

SIGNATURE = b"\x89PNG\r\n\x1a\n"
OPAQUE, SUB = 255, 1
"""Alpha of a pixel that hides what is behind it, and PNG's filter that keeps differences along a line."""


def smaller(png: bytes) -> bytes:
    """The same picture in a palette of its 256 most frequent colours; others take the nearest of these.

    It reads what vl-convert writes: 8-bit RGBA, every line with the filter Sub. Any other picture is returned as it is.

    >>> smaller(b"no picture")
    b'no picture'
    """
    pixels = _pixels(png)
    if pixels is None:
        return png
    colours, which, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    palette = colours[np.sort(np.argsort(-counts, kind="stable")[:256])]
    nearest = np.asarray(cKDTree(palette).query(colours)[1], dtype=np.uint8)
    height, width = pixels.shape[:2]
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # the first byte is the filter: none
    lines[:, 1:] = nearest[which].reshape(height, width)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (
        (b"IHDR", header),
        (b"PLTE", palette.tobytes()),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _pixels(png: bytes) -> np.ndarray | None:
    """Height x width x 3, or None where a picture is not as expected."""
    if not png.startswith(SIGNATURE):
        return None
    chunks = list(_chunks(png))
    width, height, *form = struct.unpack(">IIBBBBB", chunks[0][1])
    if form != [8, 6, 0, 0, 0]:
        return None
    data = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    lines = np.frombuffer(data, dtype=np.uint8).reshape(height, 4 * width + 1)
    pixels = np.cumsum(lines[:, 1:].reshape(height, width, 4), axis=1, dtype=np.uint8)
    return pixels[..., :3] if (lines[:, 0] == SUB).all() and (pixels[..., 3] == OPAQUE).all() else None


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += 12 + size


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
