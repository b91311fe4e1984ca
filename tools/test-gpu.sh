#!/usr/bin/env bash
# Runs the GPU tests and then the GPU benchmark on this machine: from a bundle that it builds, or,
# without Bazel, from a build/paceline-gpu.tar.gz that was copied here. Arguments go to the bundle's
# run.sh (--help lists them). Without a GPU all tests are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if command -v bazel >/dev/null; then
  tools/setup.sh
  tools/pack-gpu.sh
  : "${PYTHON:=$PWD/.venv/bin/python}"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf build/paceline-gpu.tar.gz -C "$work"
PYTHON=${PYTHON:-python3} "$work/paceline-gpu/run.sh" "$@"
