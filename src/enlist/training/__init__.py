"""Real training: models, the local engine, aggregation and server optimisers. Needs the extra `sim`."""
