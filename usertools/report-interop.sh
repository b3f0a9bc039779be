#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures programs of others between two processes on the virtual adapter, each beside what the
# machine does without one: a reference, not a gate. Each figure comes with the command that gave it.
# Usage: usertools/report-interop.sh [--rounds N] [--build FOLDER]
#   --rounds N      how often all are run, in turn; the median is shown (3)
#   --build FOLDER  where the adapter is built, release for figures that mean something (build)
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

folder=$ROOT/build rounds=3
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=${2:?--rounds needs a number} && shift ;;
    --build) folder=${2:?--build needs a folder} && shift ;;
    *)
      sed -n '3,7s/^# \{0,1\}//p' "$0"
      [ "$1" = --help ]
      exit
      ;;
  esac
  shift
done

exec < /dev/null
need_packages run report
for program in app/kilim-vhca test/interop/reference; do
  [ -x "$folder/$program" ] || fail "no $folder/$program: build the project first"
done
/usr/bin/python3 "$ROOT/test/interop/report.py" "$folder/app/kilim-vhca" \
  "$folder/test/interop/reference" "$rounds"
