"""Rounds: what is known of one, how it is run, waiting for all (training) or for a few (buffered), and evaluations."""
