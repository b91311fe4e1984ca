#!/usr/bin/env bash
# Builds everything, runs all tests, and counts their cases in a last line of its own:
# "N passed, N failed". Arguments go to `bazel test`; the default target is //...
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

targets=(//...)
for argument in "$@"; do
  [[ $argument == //* ]] && targets=()
done

events=$(mktemp)
trap 'rm -f "$events"' EXIT
bazel test --keep_going --build_event_json_file="$events" "$@" "${targets[@]}"
status=$?
echo "tests took $SECONDS s"
/usr/bin/python3 tools/count_tests.py "$events" || status=$((status ? status : 1))
exit "$status"
