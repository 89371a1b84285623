"""What a federation keeps on disk: the run folder, its checkpoints, tables and log of decisions."""
