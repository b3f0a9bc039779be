#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every C++ file is as clang-format writes it. Usage: check_format.sh ROOT [--fix]
cd "$1" || exit 2
if ! command -v clang-format > /dev/null; then
  echo "clang-format is not installed"
  exit 77
fi
mode="--dry-run -Werror"
[ "$2" = --fix ] && mode="-i"
# shellcheck disable=SC2086
find lib drivers app examples test -name '*.cc' -o -name '*.hh' -o -name '*.h' -o -name '*.c' |
  LC_ALL=C sort | xargs -r -P 2 -n 20 clang-format $mode
