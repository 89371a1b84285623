"""The peers of the training benchmark: the same workload in other simulators, and the limit of the machine.

Every peer is a script of its own, run in a process of its own, and speaks the protocol of `benchmarks.peers.workload`:

    python -m benchmarks.peers.bare         --model mlp    the limit: training steps and nothing else
    python -m benchmarks.peers.naive        --model mlp    the loop one writes first
    python -m benchmarks.peers.pfl_peer     --model mlp    pfl-research, in the environment of `install`
    python -m benchmarks.peers.flower_peer  --model mlp    Flower's simulation, in the environment of `install`

`python -m benchmarks.peers.install DIR` makes the virtual environment that the last two need.
"""
