#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# README's first minute, proven from outside: makes a Debian root that has nothing, clones this commit into
# it and types there what README says, as root and as an ordinary user. Prints the minutes of each command
# and the processor's. What is committed counts; a change that is not is told.
#
# Its base (root.sh), which is kept for a week, has minbase, ca-certificates and git, and must not have a package
# of packages.txt.
#
# Usage: usertools/fresh.sh [RELEASE] [--check | --device] [--build FOLDER | --use FOLDER] [--keep] [--may-skip]
#   RELEASE          bookworm (default), trixie, sid
#   --check          the quick check there too
#   --device         the virtual device alone: what drivers/vhca/README.md says, without DPDK; as root only
#                    what it says first, which installs packages
#   --build FOLDER   make the root in FOLDER, install and build there, run nothing and leave it for --use
#   --use FOLDER     the rest, in the root that --build left; then it is removed
#   --keep           leave the root behind and say where it is
#   --may-skip       a machine that cannot make such a root is told and is no failure
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"
. "$(dirname "${BASH_SOURCE[0]}")/root.sh"

check=no device=no build='' use='' keep=no
others=()
options "... check device build= use= keep" "may-skip" "$@"
[ ${#words[@]} -gt 0 ] && may_skip=yes
[ ${#others[@]} -le 1 ] || fail "one release at a time, not ${others[*]}"
release_named "${others[0]:-bookworm}"
[ -z "$build" ] || [ -z "$use" ] || fail "--build makes a root and --use goes on with one: not both at once"
[ $device = no ] || [ "$check$build$use" = no ] || fail "--device installs, builds and runs by itself: neither --check, --build nor --use"
exec < /dev/null

HUGE_TOTAL=$HUGE/nr_hugepages

cleanup() {
  trap '' INT TERM HUP
  end_attended
  [ -n "$root" ] || return
  if [ $keep = yes ]; then say "the root: $root"; else rm -rf --one-file-system "$root"; fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

make_root() {
  base_of
  root=$(realpath -m "${build:-$(mktemp -d "${TMPDIR:-/var/tmp}/kilim-fresh.XXXXXX")}")
  mkdir -p "$root"
  [ -z "$(ls -A "$root")" ] || { local full=$root && root= && fail "$full is not empty"; }
  copy_root "$base" "$root"
  git clone -q --no-hardlinks "$ROOT" "$root$TREE" || fail "cannot clone $ROOT"
  [ -z "$(git -C "$ROOT" status --porcelain -uno)" ] || say "what is not committed in $ROOT is not tried"
  chroot "$root" useradd --create-home newcomer || fail "cannot make a user in the root"
  say "$release, commit $(git -C "$root$TREE" log -1 --format='%h %s')"
}

# What README, or another document, says, in its order: its first command, then its blocks `sh run` and `sh fresh`.
read_readme() {
  local document=${1:-README.md}
  mapfile -t said < <(PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$ROOT/test/style/commands.py" "$root$TREE" "run fresh" "$document")
  [ ${#said[@]} -gt 1 ] || fail "$document names no command to run"
  first=${said[0]}
}

# An ordinary user may install nothing: the first command says at once what root has to install.
refused() {
  local words
  words=$(enter newcomer "$first" 2>&1) && { echo "$words"; return 1; }
  echo "$words"
  grep -q 'apt-get install' <<< "$words"
}

gives_back() { [ "$(cat $HUGE_TOTAL 2> /dev/null)" = "$1" ]; }

run_readme() {
  local line before failed=0
  before=$(cat $HUGE_TOTAL 2> /dev/null)
  step "$first" enter root "$first" || failed=1
  for line in "${said[@]:1}"; do step "$line" enter root "$line" || failed=1; done
  chown -R --reference="$root/home/newcomer" "$root$TREE"
  step "$first, as an ordinary user" enter newcomer "$first" || failed=1
  if [ $check = yes ]; then
    chown -R root:root "$root$TREE"
    step "usertools/check.sh --quick" enter root "usertools/check.sh --quick" || failed=1
  fi
  step "hugepages are given back" gives_back "$before" || failed=1
  return $failed
}

# The device alone: packages as root, all else as an ordinary user, and neither DPDK nor libnuma is there at the end.
no_dpdk() { ! enter root "pkg-config --exists libdpdk || pkg-config --exists numa"; }

run_device() {
  local line failed=0
  read_readme drivers/vhca/README.md
  step "$first" enter root "$first" || return 1
  step "neither DPDK nor libnuma is there" no_dpdk || failed=1
  chown -R --reference="$root/home/newcomer" "$root$TREE"
  for line in "${said[@]:1}"; do step "$line" enter newcomer "$line" || failed=1; done
  return $failed
}

if [ $device = yes ]; then
  make_root
  run_device || { say "fresh.sh: failed" >&2 && exit 1; }
  say "fresh.sh: ok"
  exit 0
fi
if [ -n "$use" ]; then
  root=$(realpath "$use")
  [ -d "$root$TREE" ] || { root= && fail "$use is no root that --build left"; }
  proxies
  read_readme
else
  make_root
  read_readme
  step "an ordinary user is told what to install" refused || exit 1
fi
if [ -n "$build" ]; then
  step "packages and build" enter root "$first --build" || exit 1
  step "ninja -C build" enter root "ninja -C build" || exit 1
  root=
  exit 0
fi
run_readme || { say "fresh.sh: failed" >&2 && exit 1; }
say "fresh.sh: ok"
