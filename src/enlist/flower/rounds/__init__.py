"""Rounds: the state of one, training that waits for all (training) or for a few (buffered), and evaluations."""
