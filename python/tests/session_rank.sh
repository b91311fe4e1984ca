#!/bin/sh
# Starts $SCRIPT (session_script.py) as a rank of a session: with a trainer's arguments, as
# FakeDaemon has it. $PYTHON, $PACKAGE (where paceline is) and $ARGUMENTS may be given. Without
# arguments it becomes the server that forks ranks (session_server.py).
while [ $# -gt 1 ]; do
  case $1 in
    --dir) export PACELINE_DIR="$2" ;;
    --socket) export PACELINE_SOCKET="$2" ;;
    --ring) export PACELINE_RING="$2" ;;
  esac
  shift 2
done
export PACELINE_SESSION=1 PYTHONPATH="${PACKAGE:-python}" OMP_NUM_THREADS=1
[ -n "$PACELINE_DIR" ] || exec ../torch/python.sh python/tests/session_server.py
mkdir -p "$PACELINE_DIR/log"
# shellcheck disable=SC2086  # Words.
exec "${PYTHON:-../torch/python.sh}" "${SCRIPT:-python/tests/session_script.py}" $ARGUMENTS \
  >"$PACELINE_DIR/log/0" 2>&1
