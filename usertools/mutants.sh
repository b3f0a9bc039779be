#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Puts deliberate defects (test/mutants/mutants.toml) into a copy of the adapter and the library, one
# at a time, and sees which test notices. The test that a defect's row names comes first (killed_by);
# what it does not notice meets the tests of its room, of the room's users, and all others. The last
# line is `mutants: K/T killed by our own tests`; the exit code is 0 if those are 95 %, all were tried,
# and each was noticed by the test that its row names.
# Usage: usertools/mutants.sh [--build FOLDER] [--minutes N] [--room FOLDER]...
#                             [--named-only | --near-only | --own-only] [--record] [NAME...]
#   --build FOLDER  where the copy and its build lie (build-mutants); used again if it is there
#   --minutes N     stop after so long (240)
#   --room FOLDER   only the defects of files below it, such as drivers/vhca/tpt
#   --named-only    only the tests that the rows name: about three seconds for each defect
#   --near-only     those and the tests of the defect's own room: an upper bound of survivors
#   --own-only      does not ask rdma-core's tests and ping-pongs
#   --record        writes into the table who noticed
#   NAME...         these defects
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

build=$ROOT/build-mutants
options "build= ..." "minutes= room= named-only near-only own-only record" "$@"
folder=$(realpath -m "$build")

exec < /dev/null
need_packages build run check suite
trap return_hugepages EXIT
trap 'exit 130' INT TERM HUP
reserve_hugepages 128
export CC_LD=gold CXX_LD=gold   # each defect links dozens of tests
/usr/bin/python3 "$ROOT/test/mutants/mutants.py" run "$ROOT" "$folder" "${others[@]}" "${words[@]}"
