#!/usr/bin/env bash
# Builds the programs, optimised, and makes a wheel of them in build/wheel (docs/install.md).
# CONFIG= builds them as for tests, which is quicker.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

config=${CONFIG-opt}
flags=(${config:+--config="$config"})
bazel build "${flags[@]}" //:dist_cuda
built=$(bazel info "${flags[@]}" bazel-bin 2>/dev/null)/dist/bin
version=$(sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' common/version.h)

rm -rf build/wheel
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) .venv/bin/python deploy/wheel/build.py "$built" build/wheel "$version"
ls -lh build/wheel/*.whl
