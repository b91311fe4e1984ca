#!/usr/bin/env bash
# Compiles all_reduce.cpp against the torch of python3: examples/build.sh PROGRAM
#
# torch's wheel has gloo's code but not its headers: third_party/gloo_stub has the ones needed here.
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")"

torch=$(python3 -c 'import importlib.util as i; print(i.find_spec("torch").submodule_search_locations[0])')
"${CXX:-c++}" -std=c++17 -O1 -DUSE_DISTRIBUTED -DUSE_C10D_GLOO -I../third_party/gloo_stub \
  -I"$torch/include" -I"$torch/include/torch/csrc/api/include" all_reduce.cpp -o "$1" \
  -L"$torch/lib" -Wl,-rpath,"$torch/lib" -ltorch -ltorch_cpu -lc10 \
  -Wl,--unresolved-symbols=ignore-in-shared-libs
