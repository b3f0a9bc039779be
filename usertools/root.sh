# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Roots of Debian releases, for fresh.sh and in-root.sh. Sourced behind prepare.sh, not run. Bases are
# kept in ~/.cache/kilim for a week; apt's sources and proxy are this machine's. A root is a mount point in
# mount and pid namespaces of its own, since `ip netns exec` and the launcher, where it mounts a sysfs, need
# one; nothing of the machine outside the root changes.

TREE=/src/kilim                      # where the tree is in a root
CACHE=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kilim
WEEK=7                               # days after which a base is made anew
may_skip=no root='' release=''

# This machine cannot make a root: a failure, unless it was told otherwise.
cannot() {
  [ $may_skip = no ] && fail "$*; --may-skip makes this no failure"
  say "$(basename "$0"): left out, since $*"
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

# release_named WORD: sets `release`.
release_named() {
  [[ $1 =~ ^[a-z]+$ ]] || fail "$1 is no release: bookworm, trixie or sid, for example"
  release=$1
}

# enter USER COMMAND [BIND...]: the command by a shell of the root, in the tree, as this user. A BIND
# FOLDER:PLACE shows a folder of the machine at a place of the root; lower:FOLDER lets the root lie over
# that folder, which stays as it is. Whatever it leaves behind ends with it, and all of it with the shell that
# called this, which end_attended() ends.
enter() {
  setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --propagation private bash -c '
    set -e
    root=$1 user=$2 command=$3 tree=$4
    shift 4
    if [[ ${1:-} == lower:* ]]; then
      mount -t overlay overlay -o "lowerdir=${1#lower:},upperdir=$root/upper,workdir=$root/work" "$root/top"
      root=$root/top
      shift
    else
      mount --bind "$root" "$root"
    fi
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    for bind; do
      mkdir -p "$root${bind#*:}"
      mount --bind "${bind%%:*}" "$root${bind#*:}"
    done
    home=/root; [ "$user" = root ] || home=/home/$user
    exec chroot "$root" setpriv --reuid="$user" --regid="$user" --init-groups env -i HOME="$home" USER="$user" \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
      KILIM_CHECK="${KILIM_CHECK:-}" KILIM_VHCA_MEMLOCK="${KILIM_VHCA_MEMLOCK:-}" bash -c "cd $tree && $command"' \
    enter "$root" "$1" "$2" "$TREE" "${@:3}"
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

is_young() { [ -n "$(find "$1" -maxdepth 0 -mtime -$WEEK 2> /dev/null)" ]; }

# A root that is thrown away needs no disk that has really written each file.
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
  echo force-unsafe-io > "$base.new/etc/dpkg/dpkg.cfg.d/kilim"
  rm -rf --one-file-system "$base"
  mv "$base.new" "$base"
  touch "$base"
}

# base_of: sets `base` to the folder of the release's base, not older than a week.
base_of() {
  is_root || cannot "only root may make a root"
  unshare --mount --pid --fork true 2> /dev/null || cannot "this kernel gives no mount and pid namespaces"
  (need_packages fresh) || cannot "debootstrap is not here"
  proxies
  base=$CACHE/$release
  is_young "$base" || make_base
  is_bare "$base"
}

copy_root() {
  mkdir -p "$2/${TREE%/*}"
  cp -a --reflink=auto "$1/." "$2"
  cp -L /etc/resolv.conf /etc/hosts "$2/etc/"
}

# packed_of KIND...: sets `packed` to the folder of a base that has the packages of these kinds too, as
# packages.txt lists them now; an older one of these kinds, or of a base that is gone, is removed.
packed_of() {
  local key wanted kinds=" $* "
  base_of
  wanted=$(awk -v kinds="$kinds" '!/^#/ && index(kinds, " " $1 " ")' "$ROOT/usertools/packages.txt")
  key=$(sha256sum <<< "$wanted$(stat -c %Y "$base")" | cut -c1-12)
  packed=$CACHE/$release-$(tr ' ' + <<< "$*")-$key
  if [ ! -f "$packed/etc/kilim-packed" ]; then
    rm -rf --one-file-system "${packed%-*}"-*
    root=$packed
    copy_root "$base" "$packed"
    mkdir -p "$packed$TREE"
    cp -r "$ROOT/usertools" "$packed$TREE/"
    step "packages of $release: $*" enter root ". usertools/prepare.sh; need_packages $*" ||
      fail "the packages of $release could not be installed"
    rm -rf "$packed$TREE" && mkdir "$packed$TREE" && touch "$packed/etc/kilim-packed"
    root=
  fi
}
