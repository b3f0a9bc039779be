#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures programs of others between two processes on the virtual adapter, each beside what the
# machine does without one: a reference, not a gate. Each figure comes with the command that gave it.
# Usage: usertools/report-interop.sh [--rounds N] [--build FOLDER]
#   --rounds N      how often all are run, in turn; the median is shown (3)
#   --build FOLDER  where the adapter is built, release for figures that mean something (build)
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

build=$ROOT/build rounds=3
options "build= rounds=" "" "$@"

exec < /dev/null
need_packages run report
for program in app/kilim-vhca test/interop/reference; do
  [ -x "$build/$program" ] || fail "no $build/$program: build the project first"
done
/usr/bin/python3 "$ROOT/test/interop/report.py" "$build/app/kilim-vhca" \
  "$build/test/interop/reference" "$rounds"
