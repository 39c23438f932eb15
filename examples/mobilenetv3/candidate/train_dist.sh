#!/usr/bin/env bash
# Train in several processes on the CPU: train_dist.sh [arguments of train.py]; NPROC processes (2), the rate of train.py times NPROC.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
processes=${NPROC:-2}
rate=$(awk "BEGIN { print 0.05 * $processes }")
logs=${LOG_DIR:-output/launch}  # workerlog.N of each process
exec "${PYTHON:-python}" -m paddle.distributed.launch --nproc_per_node "$processes" --log_dir "$logs" "$here/train.py" --lr "$rate" "$@"
