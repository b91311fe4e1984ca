#!/usr/bin/env bash
# Makes Debian packages from built programs: build.sh PROGRAMS OUT VERSION.
#
# PROGRAMS is a folder with paceline, paceline-controller, paceline-worker, paceline-shim,
# paceline-probe and paceline-trainer; the packages are written to the folder OUT. The libraries
# that a trainer loads from elsewhere than the system's folders (LibTorch, out of its wheel) are
# carried along. Needs debhelper and chrpath, not root. The same input gives the same packages when
# SOURCE_DATE_EPOCH is set.
set -euo pipefail

programs=$(realpath "$1")
version=$3
mkdir -p "$2"
OUT=$(realpath "$2")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -L -c %Y "$programs/paceline")}
DEB_RULES_REQUIRES_ROOT=no  # Like dpkg-buildpackage.
export OUT SOURCE_DATE_EPOCH DEB_RULES_REQUIRES_ROOT
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
readonly programs version here root
readonly packed=(paceline paceline-controller paceline-worker paceline-shim paceline-probe
  paceline-trainer)

work=$(mktemp -d "${TMPDIR:-/tmp}/paceline-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Prints the libraries that a program loads from outside the system's folders.
carried_libraries() {
  ldd "$1" | sed -n 's/^\t[^ ]* => \(\/[^ ]*\) (0x.*/\1/p' | grep -vE '^/(usr/)?lib(64)?/'
}

# The licences of the wheels that a library may come from.
copy_licences() {
  local library=$1 site record wheel
  site=${library%%/site-packages/*}/site-packages
  record=$(grep -lF "${library#"$site"/}," "$site"/*.dist-info/RECORD | head -1)
  wheel=$(basename "${record%.dist-info/RECORD}")
  mkdir -p "generated/third-party/$wheel"
  cp -Lr "${record%RECORD}licenses/." "generated/third-party/$wheel/"
}

# The manual page of a daemon is made from its --help.
manual() {
  local program=$1 what=$2
  {
    printf '.TH %s 8 "" "Paceline %s" "System Administration"\n' "${program^^}" "$version"
    printf '.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n[flags]\n' "$program" "$what" "$program"
    printf '.SH DESCRIPTION\n.nf\n'
    "programs/$program" --help | sed "s/\\\\/\\\\e/g; s/-/\\\\-/g; s/^\\([.']\\)/\\\\\\&\\1/"
    printf '.fi\n.SH SEE ALSO\n/usr/share/doc/paceline\n'
  } >"generated/man/$program.8"
}

cd "$work"
mkdir -p programs generated/{man,doc,torch,third-party} generated/completions/{bash,zsh,fish} \
  generated/examples/{kubernetes,slurm} generated/share/{prometheus,grafana}
for program in "${packed[@]}"; do
  install -m 755 "$programs/$program" programs/
done
cp -RL "$here" debian
rm -f debian/BUILD debian/build.sh

carried_libraries "$programs/paceline-trainer" >libraries
carried_libraries "$programs/paceline-probe" >>libraries || true
sort -u -o libraries libraries
while read -r library; do
  install -m 644 "$library" generated/torch/
  copy_licences "$(realpath -s "$library")"
done <libraries

programs/paceline completion bash >generated/completions/bash/paceline
programs/paceline completion zsh >generated/completions/zsh/_paceline
programs/paceline completion fish >generated/completions/fish/paceline.fish
programs/paceline man >generated/man/paceline.1
manual paceline-controller "schedule training jobs onto nodes"
manual paceline-worker "run the trainers of a node"

# The code that watches the steps of users' scripts.
mkdir -p generated/python
(cd "$root/python" &&
  cp -L --parents -t "$work/generated/python" paceline/*.py paceline/{export,import_hf,onboard,site}/*.py)
# The pages keep their folders, so that links between them work.
(cd "$root" && cp -L --parents README.md CHANGELOG.md docs/*.md docs/*/*.md "$work/generated/doc")
cd "$root/deploy"
cp -L examples/*.yaml examples/*.py "$work/generated/examples"
cp -L kubernetes/*.yaml "$work/generated/examples/kubernetes"
cp -L slurm/paceline* "$work/generated/examples/slurm"
cp -L prometheus/*.y*ml "$work/generated/share/prometheus"
cp -L --parents -t "$work/generated/share" grafana/dashboards/*.json grafana/provisioning/*/*.yaml
cd "$work"
sed -i 's|path: .*|path: /usr/share/paceline/grafana/dashboards|' \
  generated/share/grafana/provisioning/dashboards/paceline.yaml

cat >debian/changelog <<TEXT
paceline ($version) unstable; urgency=medium

  * What has changed is in /usr/share/doc/paceline/CHANGELOG.md.

 -- Paceline developers <paceline@packages.invalid>  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
TEXT
debian/rules binary >build.log 2>&1 || { cat build.log >&2; exit 1; }
