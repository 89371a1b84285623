"""Clusters of label distributions against scikit-learn's DBSCAN."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import DBSCAN

from enlist.bandits import distances, hellinger
from enlist.bandits.clusters import clusters


@pytest.mark.parametrize("seed", range(10))
def test_clusters_are_those_of_dbscan(seed):
    rows = hellinger(np.random.default_rng(seed).dirichlet(np.full(4, 0.3), size=40))
    found = clusters(rows, 0.25, np.random.default_rng(0))
    theirs = DBSCAN(eps=0.25 - 1e-9, min_samples=2, metric="precomputed").fit_predict(distances(rows, rows))
    for mine in range(40):
        together = theirs == theirs[mine] if theirs[mine] >= 0 else np.arange(40) == mine
        np.testing.assert_array_equal(found == found[mine], together)
