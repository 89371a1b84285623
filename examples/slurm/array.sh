#!/bin/bash
#SBATCH --job-name=enlist-parts
#SBATCH --array=1-16
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00

# Parts of a comparison or a sweep as a job array, without Ray; give the words of the command after `enlist`:
#
#     sbatch array.sh sweep study.toml --set rounds.k=5,10,20 --seeds 10 --output "$SCRATCH/study"
#     PARTS=16 sbatch --array=3,7 array.sh sweep ...      # the third and the seventh of sixteen again
#
# All parts write into one folder, which every node must see.

set -euo pipefail
if (($# == 0)); then
    echo 'usage: sbatch array.sh compare|sweep ... --output FOLDER' >&2
    exit 2
fi
exec enlist "$@" --jobs "$SLURM_CPUS_PER_TASK" --shard "$SLURM_ARRAY_TASK_ID/${PARTS:-$SLURM_ARRAY_TASK_COUNT}"
