#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Puts deliberate defects (test/mutants/mutants.toml) into a copy of the adapter and the library, one
# at a time, and sees which test notices. The last line is `mutants: K/T killed by our own tests`;
# the exit code is 0 if those are 95 % and all were tried.
# Usage: usertools/mutants.sh [--build FOLDER] [--minutes N] [--near-only | --own-only] [NAME...]
#   --build FOLDER  where the copy and its build lie (build-mutants); used again if it is there
#   --minutes N     stop after so long (240)
#   --near-only     only the tests of the defect's own room: quick, and an upper bound of survivors
#   --own-only      does not ask rdma-core's tests and ping-pongs
#   NAME...         only these defects
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

build=$ROOT/build-mutants
options "build= ..." "minutes= near-only own-only" "$@"
folder=$(realpath -m "$build")

exec < /dev/null
need_packages build run check suite
trap return_hugepages EXIT
trap 'exit 130' INT TERM HUP
reserve_hugepages 128
export CC_LD=gold CXX_LD=gold   # each defect links dozens of tests
/usr/bin/python3 "$ROOT/test/mutants/mutants.py" run "$ROOT" "$folder" "${others[@]}" "${words[@]}"
