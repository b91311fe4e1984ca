#!/usr/bin/env bash
# Builds the programs, optimised, and makes wheels of them in build/wheel (docs/install.md): one with
# the engines for the Python and the torch of .venv, and one without an engine, for every other Python.
# CONFIG= builds them as for tests, which is quicker.
#
#   ALL=1        engines for all Pythons and torchs of deploy/wheel, a wheel for each Python: takes
#                hours on two cores the first time
#   PYTHON=PATH  also one for this interpreter and the torch that it imports
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly inputs=$PWD/build/wheel-inputs
readonly work=build/wheel-work
config=${CONFIG-opt}
flags=(${config:+--config="$config"})
version=$(sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' common/version.h)
read -r own_python own_torch < <(.venv/bin/python -c 'import sys
from importlib.metadata import version
print("%d.%d" % sys.version_info[:2], version("torch").rpartition(".")[0])')

# engines PYTHON HEADERS TORCH SITE NAME...: builds these engines for a version of Python, with its
# headers, and of torch, in this folder; empty: those of .venv.
engines() {
  local folder=$work/engines/$1/$3 headers=$2 site=$4 name built
  shift 4
  bazel build "${flags[@]}" --repo_env=PACELINE_PYTHON_HEADERS="$headers" \
    --repo_env=PACELINE_TORCH="$site" "${@/#///python:paceline/}"
  built=$(bazel info "${flags[@]}" bazel-bin 2>/dev/null)
  mkdir -p "$folder"
  for name in "$@"; do
    cp "$built/python/paceline/$name" "$folder/"
  done
}

# Those for other Pythons and torchs than .venv's. Sources are compiled anew for each torch, and for
# each Python only those that see its headers. Those for GPUs need a torch for CUDA 13 (docs/gpu.md).
all_engines() {
  local torch headers
  tools/wheel-inputs.sh
  for headers in "$inputs"/python-*/include/python3*; do
    engines "${headers##*/python}" "$headers" "$own_torch" "" _engine.so _engine_cuda.so
  done
  for torch in "$inputs"/torch-*; do
    engines "$own_python" "" "${torch##*-}" "$torch" _engine.so
    for headers in "$inputs"/python-*/include/python3*; do
      engines "${headers##*/python}" "$headers" "${torch##*-}" "$torch" _engine.so
    done
  done
}

# That for $PYTHON and its torch; for GPUs, too, if its libraries lie where those of CUDA 13 do.
own_engine() {
  local found names=(_engine.so)
  found=$("$PYTHON" -c 'import os, sys, sysconfig, torch
print("%d.%d" % sys.version_info[:2], sysconfig.get_path("include"),
      ".".join(torch.__version__.split(".")[:2]),
      os.path.dirname(os.path.dirname(torch.__file__)), sep="\n")')
  mapfile -t found <<<"$found"
  [[ -e ${found[3]}/nvidia/cu13/bin/nvcc ]] && names+=(_engine_cuda.so)
  engines "${found[@]}" "${names[@]}"
}

rm -rf build/wheel "$work"
bazel build "${flags[@]}" //:dist_cuda
mkdir -p "$work/engines"
# Copied, since what follows builds parts of it for other versions.
cp -rL "$(bazel info "${flags[@]}" bazel-bin 2>/dev/null)/dist/bin" "$work/programs"
[[ -z ${ALL:-} ]] || all_engines
[[ -z ${PYTHON:-} ]] || own_engine

# In an unpacked source archive there is no git.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)} .venv/bin/python deploy/wheel/build.py \
  "$work/programs" build/wheel "$version" "$work/engines"
rm -rf "$work"
ls -lh build/wheel/*.whl
