#!/usr/bin/env bash
# Runs one benchmark beside its peer: tools/bench.sh NAME. Its last line is the result as JSON
# (bench/README.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

name=${1:-}
if [[ -z $name || ! -f bench/$name.py ]]; then
  echo "which benchmark? make bench NAME=$(cd bench && printf '%s\n' *.py |
    grep -vE '^(failures|links|paceline_bench|training).py$' | sed 's/\.py$//' | paste -sd '|')" >&2
  exit 2
fi
shift
PYTHONPATH=bench PYTHONDONTWRITEBYTECODE=1 exec .venv/bin/python "bench/$name.py" "$@"
