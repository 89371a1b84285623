"""BSFL (Ben Ami, Cohen and Zhao 2023): bandit scheduling for federated learning, and its annealing."""
