#!/usr/bin/env bash
# Builds the programs, optimised, and makes Debian packages of them in build/deb (docs/install.md).
# CONFIG= builds them as for tests, which is quicker.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

config=${CONFIG-opt}
flags=(${config:+--config="$config"})
bazel build "${flags[@]}" //:dist
built=$(bazel info "${flags[@]}" bazel-bin 2>/dev/null)/dist/bin
version=$(sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' common/version.h)

rm -rf build/deb
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) deploy/debian/build.sh "$built" build/deb "$version"
ls -lh build/deb/*.deb
