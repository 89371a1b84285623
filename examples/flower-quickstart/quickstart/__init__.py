"""A Flower app whose nodes are chosen by Enlist."""
