#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# README's first minute, proven from outside: makes a Debian root that has nothing, clones this commit into
# it and types there what README says, as root and as an ordinary user. Prints the minutes of each command
# and the processor's. What is committed counts; a change that is not is told.
#
# The root is a mount point in mount and pid namespaces of its own, since `ip netns exec` and the launcher,
# where it mounts a sysfs, need one. A bare base is kept in ~/.cache/kilim for a week; it has minbase, ca-certificates
# and git, and must not have a package of packages.txt. apt's sources and proxy are this machine's.
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

check=no device=no build= use= keep=no may_skip=no
others=()
options "... check device build= use= keep" "may-skip" "$@"
[ ${#words[@]} -gt 0 ] && may_skip=yes
release=${others[0]:-bookworm}
[ ${#others[@]} -le 1 ] || fail "one release at a time, not ${others[*]}"
[[ $release =~ ^[a-z]+$ ]] || fail "$release is no release: bookworm, trixie or sid, for example"
[ -z "$build" ] || [ -z "$use" ] || fail "--build makes a root and --use goes on with one: not both at once"
[ $device = no ] || [ "$check$build$use" = no ] || fail "--device installs, builds and runs by itself: neither --check, --build nor --use"
exec < /dev/null

HUGE_TOTAL=$HUGE/nr_hugepages
TREE=/src/kilim                      # where the clone is in the root
root=

cleanup() {
  trap '' INT TERM HUP
  end_attended
  [ -n "$root" ] || return
  if [ $keep = yes ]; then say "the root: $root"; else rm -rf --one-file-system "$root"; fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# This machine cannot make a root: a failure, unless it was told otherwise.
cannot() {
  [ $may_skip = no ] && fail "$*; --may-skip makes this no failure"
  say "fresh.sh: left out, since $*"
  exit 0
}

# step NAME COMMAND...: the command, and what it took; its last lines where it failed.
step() {
  local name=$1 log code start=$EPOCHREALTIME TIMEFORMAT='%U %S' spent user system
  shift
  log=$(mktemp)
  { time attend "$@" > "$log" 2>&1; code=$?; } 2> "$log.time"
  read -r user system < "$log.time"
  spent=$(awk -v a="$start" -v b="$EPOCHREALTIME" -v u="${user:-0}" -v s="${system:-0}" \
    'BEGIN { printf "%.1f min, %.1f of a processor", (b - a) / 60, (u + s) / 60 }')
  say "  $name: $spent$([ $code = 0 ] || echo ", FAILED with $code")"
  [ $code = 0 ] || tail -25 "$log" >&2
  rm -f "$log" "$log.time"
  return $code
}

# enter USER COMMAND: the command by a shell of the root, in the clone, as this user. Whatever it leaves
# behind ends with it.
enter() {
  unshare --mount --pid --fork --kill-child --propagation private bash -c '
    set -e
    mount --bind "$1" "$1"
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/run"
    home=/root; [ "$2" = root ] || home=/home/$2
    exec chroot "$1" setpriv --reuid="$2" --regid="$2" --init-groups env -i HOME="$home" USER="$2" \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
      KILIM_CHECK="${KILIM_CHECK:-}" bash -c "cd $4 && $3"' enter "$root" "$1" "$2" "$TREE"
}

# The machine's own Debian archives, a line `URI SUITE` each, with RELEASE in the place of its own name.
archives() {
  local uri suite own
  own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(ORIGIN) $(COMPONENT)' "Created-By: Packages" |
    awk '$3 == "Debian" && $4 == "main" { print $1, $2 }' | sort -u |
    while read -r uri suite; do
      [ -n "$own" ] && suite=${suite/#"$own"/"$release"}
      [ "$release" = sid ] && [ "$suite" != sid ] && continue   # has neither updates nor security
      echo "$uri $suite"
    done
}

proxies() {
  local http=
  eval "$(apt-config shell http Acquire::http::Proxy)"
  [ -z "$http" ] || export http_proxy=${http_proxy:-$http}
}

# A base with a package that Kilim wants would prove nothing about that package.
is_bare() {
  local wanted found
  wanted=$(grep -v '^#' "$ROOT/usertools/packages.txt" | awk '{ print $2 }' | sort -u)
  # shellcheck disable=SC2086
  found=$(dpkg-query --admindir "$1/var/lib/dpkg" -W -f '${Package} ${db:Status-Status}\n' $wanted 2> /dev/null |
    awk '$2 == "installed" { print $1 }')
  [ -z "$found" ] || fail "the base has ${found//$'\n'/, } of packages.txt, so it is not bare"
}

make_base() {
  local list mirror
  list=$(archives)
  mirror=$(awk -v r="$release" '$2 == r { print $1; exit }' <<< "$list")
  [ -n "$mirror" ] || cannot "apt knows no archive of Debian's from which $release could come (apt-get update?)"
  rm -rf --one-file-system "$base.new"
  mkdir -p "$base.new"
  step "a bare $release" debootstrap --variant=minbase --include=ca-certificates,git "$release" "$base.new" "$mirror" ||
    cannot "debootstrap could not make a root of $release"
  awk '{ print "deb", $1, $2, "main" }' <<< "$list" > "$base.new/etc/apt/sources.list"
  apt-config dump 'Acquire' | grep -i '::proxy' > "$base.new/etc/apt/apt.conf.d/90proxy"
  rm -rf --one-file-system "$base"
  mv "$base.new" "$base"
  touch "$base"
}

# The base of the release, not older than a week.
base_of() {
  base=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kilim/$release
  [ -n "$(find "$base" -maxdepth 0 -mtime -7 2> /dev/null)" ] || make_base
  is_bare "$base"
}

make_root() {
  is_root || cannot "only root may make a root"
  unshare --mount --pid --fork true 2> /dev/null || cannot "this kernel gives no mount and pid namespaces"
  (need_packages fresh) || cannot "debootstrap is not here"
  proxies
  base_of
  root=$(realpath -m "${build:-$(mktemp -d "${TMPDIR:-/var/tmp}/kilim-fresh.XXXXXX")}")
  mkdir -p "$root"
  [ -z "$(ls -A "$root")" ] || { local full=$root && root= && fail "$full is not empty"; }
  cp -a --reflink=auto "$base/." "$root"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  mkdir -p "$root/${TREE%/*}"
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
