# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What every script here does first: packages, hugepages, a build. Sourced, not run. Changes the
# machine only by installing what is missing and by reserving hugepages that return_hugepages gives
# back; says one line for each thing done, and why where something cannot be done.

export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}
is_root() { [ "$(id -u)" = 0 ]; }

# How far long work is: each second on a terminal, in a line of its own that goes away at the end; else a
# line every half a minute. On what was stderr when this file was read, whatever a stage keeps for itself.
exec 7>&2
progress_fd=7 progress_every=30

# is_child_of PID: this subshell's parent is that process, and not one that has got its number since.
is_child_of() {
  local words
  read -r words < "/proc/$BASHPID/stat"
  read -ra words <<< "${words##*) }"   # proc(5): state, ppid, ... behind the name
  [ "${words[1]}" = "$1" ]
}

# tick WHAT LOG PID: tells until that process, its parent, has ended how far ninja or `meson test`, whose
# words are in LOG, is, and how long it has taken.
tick() {
  local what=$1 log=$2 pid=$3 begun=$SECONDS every=$progress_every told=0 done spent
  [ -t "$progress_fd" ] && every=1
  while sleep 1 && is_child_of "$pid"; do
    spent=$((SECONDS - begun))
    [ $((spent - told)) -ge "$every" ] || continue
    told=$spent
    done=$(tail -c 2000 "$log" 2> /dev/null | grep -oE '^(\[| *)[0-9]+/[0-9]+(\]| )' | tail -1 | tr -d '[] ')
    printf -v spent '%d:%02d' $((spent / 60)) $((spent % 60))
    [ "$every" = 1 ] && printf '\r\033[K' >&"$progress_fd"
    printf '  %s: %s%s min' "$what" "${done:+${done/\// of }, }" "$spent" >&"$progress_fd"
    [ "$every" = 1 ] || printf '\n' >&"$progress_fd"
  done
}

# attend COMMAND...: the command, so that a signal to this script is acted on at once: bash would wait for a
# command in the foreground first. end_attended(), on the way out, ends what still runs. Its exit code.
attended=
attend() {
  "$@" &
  attended=$!
  wait $attended
  set -- $?
  attended=
  return "$1"
}

# end_attended: gives an attended command, which ends its own children, five seconds to go.
end_attended() {
  local i
  [ -n "$attended" ] && kill -TERM "$attended" 2> /dev/null || return 0
  for ((i = 0; i < 50; i++)); do
    kill -0 "$attended" 2> /dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$attended" 2> /dev/null
}

# told WHAT LOG COMMAND...: the command, while tick() tells how far it is. Its exit code.
told() {
  local what=$1 log=$2 me=$BASHPID code ticker   # behind an & BASHPID is the number of what runs there
  shift 2
  tick "$what" "$log" "$me" &
  ticker=$!
  "$@"
  code=$?
  { kill $ticker && wait $ticker; } 2> /dev/null
  [ -t "$progress_fd" ] && printf '\r\033[K' >&"$progress_fd"
  return $code
}

# The script's head, which is its help.
# The script's head, in 80 columns: what is too much for a line goes on where its second column begins,
# in front of the line that goes on there itself.
usage() {
  sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" | awk -v columns=80 '
    function spaces(n) { return n == 0 ? "" : sprintf("%" n "s", "") }
    {
      lead = match($0, /[^ ]/) ? RSTART - 1 : 0
      goes_on = rest != "" && $0 != "" && lead == indent && $0 !~ /^Usage/
      if (goes_on) $0 = spaces(indent) rest " " substr($0, lead + 1)
      else if (rest != "") print spaces(indent) rest
      rest = ""
      if (!goes_on) {
        match($0, /^ *[^ ]+( [^ ]+)*  +/)
        indent = RLENGTH > 0 && RLENGTH <= columns / 2 ? RLENGTH : $0 ~ /^Usage/ ? 7 : lead
      }
      while (length($0) > columns) {
        for (cut = columns + 1; cut > indent && substr($0, cut, 1) != " "; cut--);
        if (cut <= indent) break
        print substr($0, 1, cut - 1)
        rest = substr($0, cut + 1)
        $0 = spaces(indent) rest
      }
      if (rest == "") print
    }
    END { if (rest != "") print spaces(indent) rest }'
}

# options OWN PASSED ARGUMENT...: what the script was asked for. OWN options become variables of that
# name (--size 3: size=3, --keep: keep=yes), PASSED ones go to `words` as they came; a name that ends in
# `=` takes a value. With `...` among OWN, what is no option goes to `others`. --help ends the script.
words=() others=()
options() {
  local own=" $1 " passed=" $2 " name value
  shift 2
  while [ $# -gt 0 ]; do
    name=${1#--} value=()
    case $1 in
      -h | --help) usage && exit ;;
      --?*) ;;
      *)
        [[ $1 != -* && $own == *" ... "* ]] || fail "$1: there is no such option; see --help"
        others+=("$1") && shift && continue
        ;;
    esac
    if [[ $own$passed == *" $name= "* ]]; then
      [ $# -ge 2 ] || fail "$1 needs a value"
      value=("$2")
    elif [[ $own$passed != *" $name "* ]]; then
      fail "$1: there is no such option; see --help"
    fi
    if [[ $own == *" $name "* || $own == *" $name= "* ]]; then
      declare -g "$name=${value[0]-yes}"
    else
      words+=("$1" "${value[@]}")
    fi
    shift $((1 + ${#value[@]}))
  done
}

# Installs the packages of the given kinds (build, run, check) that are not there yet. A signal waits for
# apt-get to end, since dpkg stopped in the middle leaves a machine to be repaired.
need_packages() {
  local kinds="$*" kind name only missing=() own
  own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  while read -r kind name only; do
    case " $kinds " in *" $kind "*) ;; *) continue ;; esac
    [[ -z $only || " $only " == *" $own "* ]] || continue
    dpkg-query -W -f '${db:Status-Status}' "$name" 2> /dev/null | grep -qx installed ||
      missing+=("$name")
  done < <(grep -v '^#' "$ROOT/usertools/packages.txt")
  [ ${#missing[@]} = 0 ] && return 0
  if ! command -v apt-get > /dev/null; then
    fail "no apt-get here; install what Debian calls ${missing[*]} and run this again"
  fi
  is_root || fail "not installed, and only root may install it: apt-get install ${missing[*]}"
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  local log
  log=$(mktemp)
  if ! { apt-get -qq update &&
    told "installing ${#missing[@]} packages" "$log" apt-get -qq -y --no-install-recommends install "${missing[@]}"; } \
    > "$log" 2>&1 < /dev/null; then
    tail -20 "$log" >&2
    rm -f "$log"
    fail "apt-get could not install ${missing[*]} (above is what it said)"
  fi
  rm -f "$log"
}

# Wants COUNT free hugepages of 2 MiB. Sets HUGEPAGES to yes or no; says so where it may not.
HUGE=/sys/kernel/mm/hugepages/hugepages-2048kB
HUGEPAGES=no
hugepages_before=
reserve_hugepages() {
  local free total
  [ -r $HUGE/nr_hugepages ] || {
    say "no 2 MiB hugepages on this kernel: going on with --no-huge --no-shconf"
    return 0
  }
  free=$(cat $HUGE/free_hugepages) total=$(cat $HUGE/nr_hugepages)
  if [ "$free" -lt "$1" ] && is_root &&
    { echo $((total + $1 - free)) > $HUGE/nr_hugepages; } 2> /dev/null; then
    hugepages_before=$total
    free=$(cat $HUGE/free_hugepages)
  fi
  if is_root && [ "$free" -ge "$1" ]; then
    HUGEPAGES=yes
    say "hugepages: $free of 2 MiB are free"
  elif [ "$free" -ge "$1" ]; then
    say "hugepages are root's here: going on with --no-huge --no-shconf"
  else
    say "hugepages: $free of the $1 wanted are free: going on with --no-huge --no-shconf"
  fi
}
return_hugepages() {
  [ -n "$hugepages_before" ] && { echo "$hugepages_before" > $HUGE/nr_hugepages; } 2> /dev/null
  hugepages_before=
}

# Without this ccache keeps nothing that was compiled with a precompiled header (cpp_pch).
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}

# configure FOLDER OPTION...: a Meson folder with these options, made anew if it cannot be used. An option
# behind `new:` counts only where the folder is made. gold, where it is, links seven times as quickly as ld.
configure() {
  local folder=$1 log word old=("-Dcpp_args=") new=()
  for word in "${@:2}"; do
    case $word in
      new:*) new+=("${word#new:}") ;;
      *) old+=("$word") ;;
    esac
  done
  log=$(mktemp)
  if ! { [ -f "$folder/build.ninja" ] && meson configure "$folder" "${old[@]}" > "$log" 2>&1 &&
    ninja -C "$folder" build.ninja >> "$log" 2>&1; }; then   # reads changed build files anew
    [ ! -d "$folder" ] || find "$folder" -mindepth 1 -delete   # itself it may be a mount point
    ! command -v ld.gold > /dev/null || export CC_LD=gold CXX_LD=gold
    if ! meson setup "$folder" "$ROOT" "${new[@]}" "${old[@]}" > "$log" 2>&1 < /dev/null; then
      tail -30 "$log" >&2
      rm -f "$log"
      return 1
    fi
  fi
  rm -f "$log"
}

# build FOLDER TARGET...: quiet unless it fails, but for how far it is.
build() {
  local folder=$1 log
  shift
  log=$(mktemp)
  if ! told "building $(basename "$folder")/" "$log" attend ninja -C "$folder" "$@" > "$log" 2>&1 < /dev/null; then
    grep -v '^\[[0-9]*/[0-9]*\] \(Compiling\|Linking\|Generating\)' "$log" | tail -60 >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}
