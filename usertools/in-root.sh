#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs a command in a root of a Debian release that has the packages which this release has for Kilim, in a
# copy of this tree as it stands, committed or not. The root is kept ready in ~/.cache/kilim and is not
# changed by the command; the copy is thrown away, and what is kept is the build folder and its ccache.
#
# Usage: usertools/in-root.sh [--with KINDS] [--build FOLDER] [--may-skip] RELEASE COMMAND [ARGUMENT...]
#   RELEASE          bookworm, trixie or sid
#   --with KINDS     kinds of packages.txt to be there, in quotes; default "build run check suite root"
#   --build FOLDER   the copy's build/, kept in FOLDER; default build-RELEASE in this tree
#   --may-skip       a machine that cannot make such a root is told and is no failure
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"
. "$(dirname "${BASH_SOURCE[0]}")/root.sh"

build='' kinds='' with='' head=()
while [ $# -gt 0 ]; do
  case $1 in
    --with | --build) head+=("$1" "${@:2:1}") && shift ;;
    -*) head+=("$1") ;;
    *) break ;;
  esac
  shift
done
rest=("$@")
set -- "${head[@]}"
options "with= build=" "may-skip" "$@"
[ ${#words[@]} -gt 0 ] && may_skip=yes
[ ${#rest[@]} -ge 2 ] || fail "a release and a command are wanted; see --help"
release_named "${rest[0]}"
kinds=${with:-build run check suite root}
build=$(realpath -m "${build:-$ROOT/build-$release}")
exec < /dev/null

cleanup() {
  trap '' INT TERM HUP
  end_attended
  [ -z "$root" ] || rm -rf --one-file-system "$root"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# shellcheck disable=SC2086
packed_of $kinds
root=$(mktemp -d "${TMPDIR:-/var/tmp}/kilim-root.XXXXXX")
mkdir -p "$root"/{upper,work,top} "$build" "$CACHE/ccache-$release"
mkdir -p "$root/upper$TREE"
# With their times, so that a kept build folder compiles what changed alone.
(cd "$ROOT" && git ls-files -z -co --exclude-standard | tar -c --null --verbatim-files-from -T - --ignore-failed-read 2> /dev/null) |
  tar -x -C "$root/upper$TREE" || fail "cannot copy $ROOT"
printf -v command '%q ' "${rest[@]:1}"
attend enter root "$command" "lower:$packed" "$build:$TREE/build" "$CACHE/ccache-$release:/root/.cache/ccache"
