#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs rdma-core's own test suite, Debian's files unmodified, on the virtual adapter, and compares
# each test with test/pyverbs/manifest.tsv.
# Usage: usertools/run-pyverbs.sh [--tier T] [--seed N] [--quick] [--build FOLDER] [--verbose]
#   --tier T        only this tier (0, 1, 2, 3a, ...); may be given more than once
#   --seed N        numbers of keys and queues, and the suite's random choices, follow from it (0)
#   --quick         only the tests that the manifest expects to pass
#   --build FOLDER  where the adapter is built (build)
#   --verbose       what each test that did not pass said
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

build=$ROOT/build
options "build=" "tier= seed= quick verbose" "$@"

exec < /dev/null
need_packages run suite
[ -x "$build/app/kilim-vhca" ] || fail "no $build/app/kilim-vhca: build the project first"
work=$(mktemp -d)
trap 'return_hugepages; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# The suite is documentation of Debian's package; a slim system left it out when it was installed.
files=/usr/share/doc/rdma-core/tests
if [ ! -e $files/run_tests.py ]; then
  say "documentation is stripped here: taking the suite from the package file"
  fetch() { apt-get -qq download python3-pyverbs; }
  (cd "$work" && { fetch || { apt-get -qq update && fetch; }; } &&
    dpkg-deb -x python3-pyverbs_*.deb package) > "$work/log" 2>&1 || {
    tail -5 "$work/log" >&2
    fail "apt-get could not download python3-pyverbs (above is what it said)"
  }
  files=$work/package/usr/share/doc/rdma-core/tests
fi
mkdir "$work/tests"
cp "$files"/*.py* "$work/tests" && gzip -dqf "$work"/tests/*.gz
(cd "$work/tests" && sha256sum --check --quiet --strict "$ROOT/test/pyverbs/files.sha256") ||
  fail "these are not the test files of rdma-core 44.0-2"

reserve_hugepages 8 > /dev/null
/usr/bin/python3 "$ROOT/test/pyverbs/suite.py" --launcher "$build/app/kilim-vhca" \
  --files "$work" --manifest "$ROOT/test/pyverbs/manifest.tsv" "${words[@]}"
