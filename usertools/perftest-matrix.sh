#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs perftest's programs between two processes on the virtual adapter: every program, transport
# and option, and says of each combination whether it did what it should. The last line is
# `N passed, M failed`.
# Usage: usertools/perftest-matrix.sh [--part] [--pairs] [--only WORDS] [--write]
#                                     [--results FILE] [--build FOLDER]
#   --part          a part that stands for the whole, less than a minute
#   --pairs         two options at a time too
#   --only WORDS    what matches this regular expression, like 'send_bw -c UD'
#   --write         the table goes to doc/compatibility.md if nothing failed
#   --results FILE  what was right goes there; run again with it, only the rest is run
#   --build FOLDER  where the adapter is built (build)
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

folder=$ROOT/build
words=()
while [ $# -gt 0 ]; do
  case $1 in
    --part | --pairs) words+=("$1") ;;
    --only) words+=(--only "${2:?--only needs words}") && shift ;;
    --results) words+=(--results "${2:?--results needs a file}") && shift ;;
    --write) words+=(--write "$ROOT/doc/compatibility.md") ;;
    --build) folder=${2:?--build needs a folder} && shift ;;
    *)
      sed -n '3,13s/^# \{0,1\}//p' "$0"
      [ "$1" = --help ]
      exit
      ;;
  esac
  shift
done

exec < /dev/null
need_packages run check
[ -x "$folder/app/kilim-vhca" ] || fail "no $folder/app/kilim-vhca: build the project first"
trap return_hugepages EXIT
trap 'exit 130' INT TERM HUP
reserve_hugepages 40
/usr/bin/python3 "$ROOT/test/interop/perftest_matrix.py" "$folder/app/kilim-vhca" "${words[@]}"
