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

build=$ROOT/build write=no
options "build= write" "part pairs only= results=" "$@"
[ "$write" = no ] || words+=(--write "$ROOT/doc/compatibility.md")

exec < /dev/null
need_packages run check
[ -x "$build/app/kilim-vhca" ] || fail "no $build/app/kilim-vhca: build the project first"
trap return_hugepages EXIT
trap 'exit 130' INT TERM HUP
reserve_hugepages 40
/usr/bin/python3 "$ROOT/test/interop/perftest_matrix.py" "$build/app/kilim-vhca" "${words[@]}"
