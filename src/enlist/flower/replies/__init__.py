"""Replies: what comes back from a node, and what of it is used and believed."""
