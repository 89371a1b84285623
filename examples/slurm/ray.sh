#!/bin/bash
#SBATCH --job-name=enlist-ray
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=12:00:00

# A Ray cluster on the nodes of a job, and one command on it; give the words of the command after `enlist`:
#
#     sbatch ray.sh ladder --selectors all --published --output "$SCRATCH/ladder"
#     sbatch --gpus-per-node=4 ray.sh compare study.toml --seeds 10 --output "$SCRATCH/study" --engine 'ray?gpus=0.25'
#
# The folder must be one that every node sees. A job that runs out of time is submitted again and does what is missing.

set -euo pipefail
if (($# == 0)); then
    echo 'usage: sbatch ray.sh run|compare|sweep|ladder|reproduce|personalise|arena ...' >&2
    exit 2
fi
engine=(--engine ray)
for word in "$@"; do
    [[ $word == --engine || $word == --engine=* ]] && engine=() # one with options was given
done

# A port and a folder of this job: others may use the same nodes. Ray's workers take ports from 10002 to 19999.
port=$((20000 + SLURM_JOB_ID % 10000))
names=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${names%%$'\n'*} # `| head -n 1` would end the script now and then: scontrol may still be writing
export RAY_ADDRESS="$head:$port"
node=(--num-cpus="$SLURM_CPUS_PER_TASK" --block)
[[ -n ${SLURM_GPUS_ON_NODE:-} ]] && node+=(--num-gpus="$SLURM_GPUS_ON_NODE")

# Slurm ends the cluster with the job; whoever tries this out elsewhere wants it ended, too.
trap 'jobs -p | xargs -r kill 2> /dev/null || true; wait' EXIT

nodes() { # wait until there are so many, for five minutes at most
    python - "$1" << 'WAIT'
import logging, sys, time
import ray

wanted, until, there = int(sys.argv[1]), time.monotonic() + 300, 0
while there < wanted and time.monotonic() < until:
    try:
        if not ray.is_initialized():
            ray.init(log_to_driver=False, logging_level=logging.ERROR)
        there = sum(node["Alive"] for node in ray.nodes())
    except (ConnectionError, RuntimeError, TimeoutError, ValueError):
        pass  # the head is not there yet
    time.sleep(1)
if there == 0:
    sys.exit("the head of the Ray cluster did not start within five minutes; see what `ray start` wrote above.")
print(f"Ray: {there} of {wanted} nodes are there.", flush=True)
WAIT
}

# Since Slurm 22.05 srun does not take over --cpus-per-task; without it all of Ray would run on one processor.
srun --nodes=1 --ntasks=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" --nodelist="$head" \
    ray start --head --port="$port" --temp-dir="/tmp/ray-$SLURM_JOB_ID" "${node[@]}" &
nodes 1
others=$((SLURM_JOB_NUM_NODES - 1))
if ((others > 0)); then
    srun --nodes="$others" --ntasks="$others" --cpus-per-task="$SLURM_CPUS_PER_TASK" --exclude="$head" \
        ray start --address="$RAY_ADDRESS" "${node[@]}" &
    # `enlist run` takes a training worker per processor that it finds, so all nodes should be there. Other commands use
    # those that come later, too.
    nodes "$SLURM_JOB_NUM_NODES"
fi
enlist "$@" "${engine[@]}"
