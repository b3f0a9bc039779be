#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Subjects of commits are `room: lower case imperative`, at most 60 columns, of a room that exists.
# The first word is a verb of verbs.txt.
# Usage: check_commits.sh ROOT [RANGE]    default: what the main branch's remote does not have yet,
#                                         without one the last 200 commits
#        check_commits.sh --selftest      a bad subject of every kind is refused

# The rooms: last words of the names in doc/layers.txt, and the parts of the tree without a line.
rooms_of() {
  sed -n 's/^!\{0,1\}\([a-z0-9/]*\) *:.*/\1/p' "$1/doc/layers.txt" | sed 's,.*/,,'
  printf '%s\n' house ci doc test app examples usertools vhca drivers lib \
    golden verbs interop
}

# A space on both sides of each verb.
verbs_of() {
  printf ' '
  grep -v '^#' "$1/test/style/verbs.txt" | tr '\n' ' '
}

check_subject() { # SUBJECT: says what is wrong with it, nothing if it is fine
  case $1 in
    "Merge "* | "Revert "* | "fixup! "*) return ;;
  esac
  if [ "${#1}" -gt 60 ]; then
    echo "${#1} columns, at most 60"
  fi
  if ! printf '%s\n' "$1" | grep -Eq '^[a-z0-9]+(, [a-z0-9]+)*: .'; then
    echo "not \`room: what it does\`"
    return
  fi
  for room in $(printf '%s\n' "${1%%:*}" | tr -d ,); do
    printf '%s\n' "$rooms" | grep -qx "$room" || echo "no room '$room'"
  done
  printf '%s\n' "${1#*: }" | grep -Eq '^([a-z]|[A-Z]{2})' || echo "what it does begins in lower case"
  case $1 in
    *.) echo "ends with a full stop" ;;
  esac
  first=${1#*: }
  first=${first%% *}
  case $verbs in
    *" $first "*) ;;
    *) echo "'$first' is no verb of test/style/verbs.txt" ;;
  esac
}

selftest() {
  bad=0
  for subject in 'no room here' 'attic: add a thing' 'umr: Add a thing' 'umr: added a thing' \
    'umr: a thing is added' 'umr: what a thing does' 'umr: things' \
    'umr: add a thing.' 'umr:add a thing' 'Umr: add a thing' \
    'umr: add a thing whose subject is far too long for one line of a log'; do
    if [ -z "$(check_subject "$subject")" ]; then
      echo "not refused: $subject"
      bad=1
    fi
  done
  for subject in 'umr: pad the list to a basic block' 'mem, pool: keep one arena a process'; do
    said=$(check_subject "$subject")
    if [ -n "$said" ]; then
      echo "refused: $subject: $said"
      bad=1
    fi
  done
  exit $bad
}

if [ "$1" = --selftest ]; then
  rooms=$(rooms_of "$(dirname "$0")/../..")
  verbs=$(verbs_of "$(dirname "$0")/../..")
  selftest
fi

cd "$1" || exit 2
if ! git rev-parse --git-dir > /dev/null 2>&1; then
  echo "not a git checkout: there are no subjects to read"
  exit 0
fi
rooms=$(rooms_of .)
verbs=$(verbs_of .)
range=${2:-}
if [ -z "$range" ] && git rev-parse -q --verify origin/HEAD > /dev/null &&
  [ -n "$(git rev-list -n 1 origin/HEAD..HEAD)" ]; then
  range=origin/HEAD..HEAD
fi
list=$(git log -200 --format='%h %s' ${range:+"$range"})
faults=$(printf '%s\n' "$list" | while read -r id subject; do
  check_subject "$subject" | while read -r fault; do echo "$id: $fault: $subject"; done
done)
printf '%s\n' "$faults" | sed '/^$/d'
echo "$(printf '%s\n' "$list" | wc -l) subjects, $(printf '%s' "$faults" | grep -c '') faults"
[ -z "$faults" ]
