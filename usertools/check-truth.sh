#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Lays what the virtual device says of itself beside what public dumps of real cards say
# (test/truth/facts.tsv), for each profile: known differences with their reasons, the functions that are
# not there, and faults. Unmodified rdma-core asks. The last line counts.
# Usage: usertools/check-truth.sh [BUILD]      BUILD: a build folder; default build
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

case ${1:-} in
  -*)
    usage
    [ "$1" = --help ]
    exit
    ;;
esac
cd "$ROOT" || exit 1
folder=${1:-build}
[ -f "$folder/build.ninja" ] || fail "$folder is no build folder; usertools/check.sh makes one"
build "$folder" app/kilim-vhca test/truth/query_caps || exit 1
exec /usr/bin/python3 test/truth/check_truth.py "$folder/app/kilim-vhca" "$folder/test/truth/query_caps"
