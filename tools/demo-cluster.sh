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
