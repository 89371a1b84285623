"""Team Darts (2025): UCB client selection on skewed data, and the mini-batch profile that goes before it."""
