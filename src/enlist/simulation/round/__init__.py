"""The parts of one round: clock, clients, waiting, training, server, the state that is left, and the rows."""
