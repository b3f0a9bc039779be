#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# codespell over what people wrote; the manual's own spellings are in spelling.txt.
# Usage: check_spelling.sh ROOT
cd "$1" || exit 2
if ! command -v codespell > /dev/null; then
  echo "codespell is not installed"
  exit 77
fi
codespell --ignore-words=test/style/spelling.txt lib drivers app examples test usertools debian doc .ci \
  README.md CONTRIBUTING.md
