#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every C++ file is as clang-format writes it. Usage: check_format.sh ROOT [--fix]
cd "$1" || exit 2
if ! command -v clang-format > /dev/null; then
  echo "clang-format is not installed"
  exit 77
fi
files() { find lib drivers app examples test -name '*.cc' -o -name '*.hh' -o -name '*.h' -o -name '*.c'; }

# A copy is formatted and compared: clang-format 14 reports the comment that closes `namespace
# a::inline v1::b` with --dry-run, although it changes nothing; and with -i it writes every file,
# after which everything is compiled again.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
{ echo .clang-format; files; } | tar -cf - -T - | tar -xf - -C "$copy"
(cd "$copy" && files | xargs -r -P 2 -n 20 clang-format -i)
files | { code=0
  while read -r file; do
    cmp -s "$file" "$copy/$file" && continue
    if [ "$2" = --fix ]; then
      cat "$copy/$file" > "$file"
    else
      echo "$file: not as clang-format writes it (--fix)"
      code=1
    fi
  done
  exit $code; }
