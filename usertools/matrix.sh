#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds this tree, as it stands, in roots of Debian's releases (usertools/in-root.sh) without the optimizer
# and runs tests there. A line for each release says what it has and how many tests passed.
#
# Usage: usertools/matrix.sh [--quick] [--build] [--write] [--json FILE] [RELEASE...]
#   RELEASE      of bookworm, trixie and sid; all three if none is named
#   --quick      the tests of test/releases.txt alone, instead of suites abi, unit, vhca, golden and interop
#   --build      build what they want, run nothing
#   --write      put the lines into the table of doc/compatibility.md, in place of the releases' older ones
#   --json FILE  what Meson says of each test of the last release goes there too
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

quick=no build=no write=no json=''
options "... quick build write json=" "" "$@"
[ ${#others[@]} -gt 0 ] || others=(bookworm trixie sid)
exec < /dev/null
trap end_attended EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

rows=$ROOT/usertools/release_rows.py
words=()
[ $quick = no ] || words=(--quick)
[ $build = no ] || words+=(--build)
failed=0
for release in "${others[@]}"; do
  folder=$ROOT/build-$release
  rm -f "$folder/release.txt" "$folder"/meson-logs/release*.json
  attend "$ROOT/usertools/in-root.sh" --build "$folder" "$release" usertools/release-tests.sh "${words[@]}" || failed=1
  [ $build = no ] || continue
  [ -z "$json" ] || cat "$folder"/meson-logs/release*.json > "$json"
  if [ -f "$folder/release.txt" ]; then
    row=$(/usr/bin/python3 "$rows" row "$folder") || failed=1
    say "$row"
    [ $write = no ] || /usr/bin/python3 "$rows" write "$ROOT/doc/compatibility.md" "$row" || failed=1
  else
    say "$release: nothing was run"
    failed=1
  fi
done
exit $failed
