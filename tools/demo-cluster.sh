# shellcheck shell=bash
# What the demos have in common, to be sourced: the shell's settings, a folder of their own in
# $work, a development cluster in it that is taken down at the end, whatever happens.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly paceline=$PWD/build/bin/paceline
readonly digits_csv=(.venv/lib/python3*/site-packages/sklearn/datasets/data/digits.csv.gz)
work=$(mktemp -d "${TMPDIR:-/tmp}/paceline-demo.XXXXXX")
export PACELINE_DEV_DIR=$work/cluster
# The user's contexts must not send the demo to another cluster.
export PACELINE_CONFIG=$work/config.yaml
unset PACELINE_SERVER PACELINE_CONTEXT

take_down() {
  trap - EXIT
  "$paceline" dev down --purge || true
  rm -rf "$work"
}
trap take_down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { printf '\n== %s\n' "$*"; }

# UCI's handwritten digits, as image shards in $work.
import_digits() {
  "$paceline" data import-digits --csv "${digits_csv[0]}" --out "$work"
}

# Waits until the job has made this many steps.
wait_for_step() {
  /usr/bin/python3 - "$paceline" "$1" "$2" <<'PYTHON'
import json
import subprocess
import sys
import time

paceline, job, steps = sys.argv[1:]
while True:
    described = json.loads(subprocess.run([paceline, "-o", "json", "job", "describe", job],
                                          check=True, stdout=subprocess.PIPE).stdout)
    done = int(described.get("progress", {}).get("step", 0))
    if done >= int(steps):
        break
    if described["state"] in ("FAILED", "CANCELLED"):
        sys.exit(f"demo: {job} is {described['state']} after {done} steps")
    time.sleep(0.1)
PYTHON
}

# The value of a path of keys in what a command prints as JSON.
value() {
  /usr/bin/python3 -c 'import functools, json, sys
print(functools.reduce(lambda v, k: v[int(k) if isinstance(v, list) else k], sys.argv[1:], json.load(sys.stdin)))' "$@"
}
