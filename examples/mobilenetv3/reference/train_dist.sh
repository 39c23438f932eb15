#!/usr/bin/env bash
# Train in several processes on the CPU: train_dist.sh [arguments of train.py]; NPROC processes (2), the rate of train.py times NPROC.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
processes=${NPROC:-2}
rate=$(awk "BEGIN { print 0.05 * $processes }")
exec "${PYTHON:-python}" -m torch.distributed.run --standalone --nproc_per_node "$processes" "$here/train.py" --lr "$rate" "$@"
