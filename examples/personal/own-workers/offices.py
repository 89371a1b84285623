"""Five post offices read postcodes; each keeps its digits in a file of its own. Writes one .npz for each office.

harbour   the target: few digits to learn from
station   the same scanner as the harbour
market    its scanner turns every page by a quarter
airport   its scanner shows light digits on dark paper
castle    the harbour's scanner, but somebody types every digit one too high
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
x, y = (digits.data / 16.0).reshape(-1, 8, 8), digits.target
order = np.random.default_rng(1).permutation(len(x))
harbour, station, market, airport, castle = np.split(order, [440, 780, 1120, 1460])


def write(name: str, images: np.ndarray, labels: np.ndarray, **more: np.ndarray) -> None:
    """One office: x (samples, inputs) and y (samples,), and parts of its own where it has them."""
    np.savez(f"{name}.npz", x=images.reshape(len(images), -1), y=labels, **more)


train, validation, test = np.split(harbour, [50, 200])
own = {
    "validation_x": x[validation].reshape(len(validation), -1),
    "validation_y": y[validation],
    "test_x": x[test].reshape(len(test), -1),
    "test_y": y[test],
}
write("harbour", x[train], y[train], **own)
write("station", x[station], y[station])
write("market", np.rot90(x[market], axes=(1, 2)), y[market])
write("airport", 1.0 - x[airport], y[airport])
write("castle", x[castle], (y[castle] + 1) % 10)
