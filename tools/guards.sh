#!/usr/bin/env bash
# Runs checks that take too long for each change, for the parts that have changed since a revision:
# tools/guards.sh REVISION. Before an issue is resolved, run all of them completely: make asan,
# make tsan, make check, make fuzz, make sim.
#
#   asan, tsan   the tests of folders that have changed, of those in their lists (tools/sanitize.sh)
#   tidy         the .cc files that have changed
#   fuzz         for ten seconds each, when tests/fuzz, common or a parser has changed
#   sim          2,000 histories, when a core folder or tests/sim has changed
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

since=${1:-}
git rev-parse --quiet --verify "$since^{commit}" >/dev/null ||
  { echo "since which revision? make guards SINCE=origin/main" >&2; exit 2; }

touches() { git diff --name-only "$since" | grep -qE "$1"; }
failed=()
guard() {
  local name=$1 start=$SECONDS
  shift
  "$@" || failed+=("$name")
  echo "guards: $name took $((SECONDS - start)) s"
}

guard tidy env SINCE="$since" tools/check.sh tidy
touches '(^|/)core/|^tests/sim/' && guard sim tools/sim.sh 2000
guard asan tools/sanitize.sh asan --since "$since"
guard tsan tools/sanitize.sh tsan --since "$since"
touches '^(tests/fuzz|common|cli/(job_file|config|text)|worker/(link|ring))/' && guard fuzz tools/fuzz.sh 10
((${#failed[@]} == 0)) || { echo "guards: failed: ${failed[*]}"; exit 1; }
echo "guards: all passed"
