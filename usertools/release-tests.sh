#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds this tree into build/ without the optimizer and runs tests of it, on whatever release of Debian this
# is. usertools/matrix.sh runs it in roots; build/release.txt says what the release has, build/meson-logs
# what the tests said.
#
# Usage: usertools/release-tests.sh [--quick] [--build]
#   --quick   the tests of test/releases.txt alone, instead of suites abi, unit, vhca, golden and interop
#   --build   build what they want, run nothing
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

quick=no build=no
options "quick build" "" "$@"
exec < /dev/null
cd "$ROOT" || exit 1
trap 'end_attended; return_hugepages' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
rm -f build/release.txt build/meson-logs/release*
report=$ROOT/usertools/check_report.py
suites=(abi unit vhca golden interop)
mapfile -t names < <(grep -v '^#' test/releases.txt)

words=()
if [ $quick = yes ]; then
  words=("${names[@]}")
else
  for suite in "${suites[@]}"; do words+=(--suite "$suite"); done
fi

version_of() { dpkg-query -W -f '${Version}' "$1" | sed 's/^[0-9]*://'; }

reserve_hugepages 128
configure build -Dbuildtype=debugoptimized -Doptimization=0 -Ddebug=false -Dwerror=true -Dtests=true -Dexamples=true ||
  fail "could not configure the build"
wanted=("${suites[@]}")
[ $quick = no ] || wanted=("${names[@]}")
# shellcheck disable=SC2046
build build programs $(/usr/bin/python3 "$report" targets build "${wanted[@]}") || fail "the build failed"
[ $build = no ] || exit 0
{
  (. /etc/os-release && echo "release ${VERSION_CODENAME:-unknown}")
  echo "dpdk $(pkg-config --modversion libdpdk)"
  echo "rdma-core $(version_of libibverbs1)"
  echo "compiler GCC $(c++ -dumpfullversion)"
  [ $quick = yes ] && echo "run test/releases.txt" || echo "run ${suites[*]}"
  echo "date $(date +%F)"
} > build/release.txt
told tests build/meson-logs/release.txt attend meson test -C build --no-rebuild --print-errorlogs --logbase release -t 3 "${words[@]}"
