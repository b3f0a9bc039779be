#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the libFuzzer harnesses of test/fuzz under AddressSanitizer and UBSan, two at a time, and
# keeps what they learn. A crash, a hang or a leak prints the input that made it, and fails.
# Usage: usertools/fuzz.sh [HARNESS...] [--seconds N] [--corpus FOLDER]
#   HARNESS     wqe, frame, ioctl, devx, cm, spec, line; default all
#   --seconds   for each harness, default 600; 0: build them only
#   --corpus    where inputs are kept, default build-fuzz/corpus
# The last line is `N passed, N failed, N skipped`.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"
cd "$ROOT" || exit 1

folder=build-fuzz seconds=600 corpus=
options "seconds= corpus= ..." "" "$@"
harnesses=("${others[@]}")
for name in "${harnesses[@]}"; do
  [ -f "test/fuzz/corpus/$name.txt" ] || fail "$name: there is no such harness; see --help"
done
[ ${#harnesses[@]} -gt 0 ] || mapfile -t harnesses < <(basename -s .txt test/fuzz/corpus/*.txt)
corpus=${corpus:-$ROOT/$folder/corpus}
found=$ROOT/$folder/found

build_fuzzers() {
  export CC=clang CXX=clang++
  configure $folder -Dbuildtype=debugoptimized -Doptimization=1 -Dwerror=false -Dfuzz=true \
    -Db_sanitize=address,undefined -Db_lundef=false \
    "-Dcpp_args=-fno-sanitize=vptr -fsanitize=fuzzer-no-link" && build $folder fuzzers
}

# fuzz NAME: 0, or the input that went wrong has been printed.
fuzz() {
  local name=$1 log=$found/$1.log at=$folder/test/fuzz quiet=0 input
  mkdir -p "$corpus/$name"
  "$at/fuzz_replay_$name" "test/fuzz/corpus/$name.txt" --write "$corpus/$name" || return 1
  [[ $name = spec || $name = line ]] && quiet=3   # refusals are sentences on stderr
  ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1 \
  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    "$at/fuzz_$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=4096 \
    -print_final_stats=1 -close_fd_mask=$quiet -artifact_prefix="$found/$name-" \
    "$corpus/$name" > "$log" 2>&1 &&
    say "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, $(
      grep -ao 'cov: [0-9]*' "$log" | tail -1), corpus of $(find "$corpus/$name" -type f | wc -l)" &&
    return 0
  input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
  tail -50 "$log"
  say "$name: FAILED; the input is ${input:-not kept}"
  [ -n "$input" ] && say "$name: $(xxd -p "$input" | tr -d '\n')"
  return 1
}

need_packages build check || exit 1
build_fuzzers || fail "the harnesses cannot be built"
[ "$seconds" = 0 ] && exit 0
mkdir -p "$found"
failed=0 running=()
for name in "${harnesses[@]}"; do
  if [ ${#running[@]} -ge 2 ]; then
    wait "${running[0]}" || failed=$((failed + 1))
    running=("${running[@]:1}")
  fi
  fuzz "$name" &
  running+=($!)
done
for job in "${running[@]}"; do wait "$job" || failed=$((failed + 1)); done
say "$((${#harnesses[@]} - failed)) passed, $failed failed, 0 skipped"
[ $failed = 0 ]
