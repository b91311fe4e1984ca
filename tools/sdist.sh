#!/usr/bin/env bash
# Packs the sources of the present commit for pip, which builds them against the user's own torch, into
# build/sdist (docs/install.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' common/version.h)
rm -rf build/sdist
mkdir -p build/sdist
printf 'Metadata-Version: 2.4\nName: paceline\nVersion: %s\nRequires-Python: >=3.9\n' "$version" \
  >build/sdist/PKG-INFO
git archive --format=tar.gz --prefix="paceline-$version/" --add-file=build/sdist/PKG-INFO \
  -o "build/sdist/paceline-$version.tar.gz" HEAD
rm build/sdist/PKG-INFO
ls -lh build/sdist
