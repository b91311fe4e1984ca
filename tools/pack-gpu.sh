#!/usr/bin/env bash
# Packs the GPU tests and the GPU benchmark, with the programs and libraries that they need but
# without torch's, into build/paceline-gpu.tar.gz (docs/gpu.md). It runs on a machine that has
# only a driver and a Python with torch 2.11 for CUDA 13: unpack it there and call run.sh.
# CONFIG=fastbuild packs the programs unoptimised.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly bundle=build/paceline-gpu
readonly archive=$bundle.tar.gz
readonly largest=$((60 * 1024 * 1024))

config=(--config="${CONFIG:-opt}")
[[ ${config[0]} == --config=fastbuild ]] && config=()
mapfile -t tests < <(bazel query --noshow_progress 'attr(tags, gpu, tests(//tests/gpu/...))')
targets=("${tests[@]}" //worker/trainer:trainer_cuda //bench:trainer_run)
bazel build "${config[@]}" "${targets[@]}" //:dist_cuda
built=$(bazel info "${config[@]}" bazel-bin 2>/dev/null)

rm -rf "$bundle"
mkdir -p "$bundle"/{bench/peers,lib,programs/bin,tools}
for target in "${targets[@]}"; do
  path=${target#//}
  path=${path/://}
  mkdir -p "$bundle/programs/${path%/*}"
  strip -o "$bundle/programs/$path" "$built/$path"
done
for program in "$built"/dist/bin/paceline*; do
  strip -o "$bundle/programs/bin/${program##*/}" "$program"
done
# What scripts import, where the worker looks for it. The engine is for this Python alone.
cp -rL --no-preserve=mode "$built/dist/bin/python" "$bundle/programs/bin/"
strip "$bundle"/programs/bin/python/paceline/*.so
chmod 755 "$bundle"/programs/bin/python/paceline/*.so

# Libraries that the programs are linked to, without those of torch and NVIDIA, and without the C
# and C++ run times, which belong to the system.
readonly of_system='lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+)\.so'
while read -r library; do
  cp -L "$library" "$bundle/lib/"
done < <(find "$bundle/programs" -type f -executable -exec ldd {} + |
  sed -n 's/.* => \(\/.*\) (0x.*/\1/p' | sort -u | grep -vE "/site-packages/|/$of_system")

cp bench/gpu.py bench/paceline_bench.py "$bundle/bench/"
cp bench/peers/llama.py bench/peers/llama_gpu.py "$bundle/bench/peers/"
cp tools/requirements.txt "$bundle/tools/"
cp tests/gpu/{cluster,run,session}.py "$bundle/"
git describe --always --dirty >"$bundle/COMMIT"
cat >"$bundle/run.sh" <<'RUN'
#!/bin/sh
# Runs the GPU tests and the GPU benchmark: run.sh --help. PYTHON names the Python with torch.
PYTHONDONTWRITEBYTECODE=1 exec "${PYTHON:-python3}" "$(dirname "$0")/run.py" "$@"
RUN
chmod 755 "$bundle/run.sh"

tar -czf "$archive" -C build "${bundle#build/}"
size=$(stat -c %s "$archive")
((size < largest)) || { echo "$archive is too large: $size bytes" >&2; exit 1; }
echo "packed $archive: $((size / 1024 / 1024)) MiB, $(find "$bundle/lib" -type f | wc -l) libraries"
