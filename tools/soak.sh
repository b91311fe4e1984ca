#!/usr/bin/env bash
# Runs a development cluster through everything that can happen to it (tests/soak/soak.py):
# tools/soak.sh MINUTES [OPTION...]. Builds optimised.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minutes=${1:-60}
shift || true
bazel build --config=opt --experimental_convenience_symlinks=ignore //:dist
bin=$(bazel info --config=opt bazel-bin 2>/dev/null)/dist/bin
PYTHONDONTWRITEBYTECODE=1 exec .venv/bin/python tests/soak/soak.py --minutes "$minutes" "$@" \
  "$bin"/*
