#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the test case that doc/seeds.md names for each statement of the user's documents; what it needs is
# built first. The last line is `N passed, N failed, N skipped`; a row without a case, or with one that
# does not exist, is a failure. An ordinary user skips what needs root, and is told so.
# Usage: usertools/check-seeds.sh [BUILD]      BUILD: a build folder; default build
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
exec /usr/bin/python3 usertools/check_seeds.py "$ROOT" "$folder"
