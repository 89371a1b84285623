"""The parts of one round: clock, clients, waiting, training, server, the remaining state, and the rows."""
