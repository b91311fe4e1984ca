#!/usr/bin/env bash
# Builds the programs and puts them into build/bin. CONFIG=opt builds them optimised.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

config=(${CONFIG:+--config="$CONFIG"})
bazel build "${config[@]}" //:dist
built=$(bazel info "${config[@]}" bazel-bin 2>/dev/null)/dist/bin

mkdir -p build/bin
for program in "$built"/*; do
  target=build/bin/$(basename "$program")
  cmp -s "$program" "$target" && continue
  # Renamed into place: the old one may be running.
  cp "$program" "$target.new" && chmod 755 "$target.new" && mv -f "$target.new" "$target"
done
