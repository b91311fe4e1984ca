#!/usr/bin/env bash
# Kills ranks of sessions at random moments (python/tests/session_kills_test.cc):
#   tools/kills.sh KILLS [SEED]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bazel test --nocache_test_results --test_sharding_strategy=disabled --test_timeout=36000 \
  --test_filter='RandomKillsTest.*' --test_output=errors \
  --test_env=PACELINE_KILLS="${1:-200}" --test_env=PACELINE_SEED="${2:-1}" //python:session_test
