"""Which published pictures are on this machine, for studies that make do with others where they are missing."""

from __future__ import annotations

from enlist.data.fetch import cache_folder
from enlist.data.idx import FashionMNIST


def has_fashion_mnist() -> bool:
    """Whether Fashion-MNIST is here without a download: Debian's package, or the cache.

    >>> has_fashion_mnist() in (True, False)
    True
    """
    published = FashionMNIST.published
    places = [place for place in (published.packaged, cache_folder(published.title)) if place is not None]
    return any(
        all((place / file).is_file() or (place / file).with_suffix("").is_file() for file in published.files)
        for place in places
    )
