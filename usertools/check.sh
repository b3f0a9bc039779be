#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds Kilim (release, and with AddressSanitizer and UBSan) and runs every test suite. The last
# line is `N passed, N failed, N skipped`; the exit code is 0 only if nothing failed. Without options
# it should take less than 45 minutes on two cores: a check or a part over its minutes is told, a check
# of more than 75 fails.
# Usage: usertools/check.sh [--quick | --long] [--fresh] [--releases]
#   --quick   less than 5 minutes: style, abi, unit, vhca, golden, e2e and the seeds without the tests
#             of suite slow, built in build-quick without the optimizer
#   --long    the ten-minute soak, large matrices, whole suites in a weak order, libFuzzer and the oracle
#             too. It has no budget of minutes and is not run by CI: refused where CI is set
#   --fresh   README's first command and its commands in a bare root as well (usertools/fresh.sh), as CI does
#   --releases  the tests of test/releases.txt in a root of Debian 13 as well (usertools/matrix.sh)
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

mode=normal fresh=no releases=no
for word in "$@"; do
  case $word in
    --quick | --long) mode=${word#--} ;;
    --fresh) fresh=yes ;;
    --releases) releases=yes ;;
    *)
      usage
      [ "$word" = --help ]
      exit
      ;;
  esac
done
[ "$mode" != long ] || [ -z "${CI:-}" ] ||
  fail "CI does not run --long, which has no budget of minutes: run it by hand, with CI unset"
exec < /dev/null
cd "$ROOT" || exit 1
report=$ROOT/usertools/check_report.py
stages=$(mktemp -d)
bare=     # where a bare root is under way
lane=
trap '[ -z "$lane" ] || kill -- "-$lane" 2> /dev/null; end_attended; return_hugepages; rm -rf --one-file-system "$stages" "$bare"' EXIT
trap 'exit 130' INT TERM HUP
export KILIM_CHECK=$mode
# Without CAP_IPC_LOCK everything would be held to `ulimit -l`; tests of that limit take this back.
export KILIM_VHCA_MEMLOCK=ignore

# Sets `ticks` to the processor's time of all that this shell has waited for (proc(5): cutime, cstime).
count_ticks() {
  local field
  read -ra field < "/proc/$BASHPID/stat"
  ticks=$((field[15] + field[16]))
}

# stage NAME COMMAND...: runs it, keeps its output and its seconds; a failure is the report's.
number=10 where=alone
stage() {
  local name=$1 file start=$EPOCHREALTIME code before
  number=$((number + 1)) file=$stages/$number-$name
  shift
  count_ticks
  before=$ticks
  "$@" > "$file.out" 2>&1
  code=$?
  count_ticks
  echo "$code $start $EPOCHREALTIME $((ticks - before)) $where" > "$file.part"
  mv "$file.part" "$file.ended"
  /usr/bin/python3 "$report" one "$file"
}

# beside COMMAND...: stages that run in a process group of their own and only where the others leave a core
# idle (sched(7), SCHED_IDLE), since many of these wait or are one process (ADR 0077).
beside() {
  set -m
  (
    exec 7> /dev/null
    chrt --idle --pid 0 "$BASHPID" || renice -n 19 "$BASHPID"
    number=50 where=beside
    "$@"
  ) &
  lane=$!
  set +m
}

# went_well NAME: waits for the end of a stage of those, and says how it ended.
went_well() {
  local code=
  until ls "$stages"/*-"$1".ended || ! kill -0 "${lane:-none}"; do sleep 0.2; done > /dev/null 2>&1
  read -r code _ < <(cat "$stages"/*-"$1".ended 2> /dev/null)
  [ "$code" = 0 ]
}

# suites_of FOLDER: what Meson knows; long ones only with --long.
suites_of() {
  /usr/bin/python3 "$report" suites "$1" "$mode"
}

# run FOLDER NAME MESON-TEST-ARGUMENT...: a test run whose log the report reads.
run() {
  local folder=$1 name=$2
  shift 2
  rm -f "$folder/meson-logs/$name"*
  told "$name" "$stages/$number-$name.out" attend meson test -C "$folder" --no-rebuild --logbase "$name" "$@"
  local code=$?
  # With a wrapper Meson adds its name to the log's.
  cat "$folder/meson-logs/$name"*.json > "$stages/$number-$name.json" || return 1
  return $code
}

# The quickstart sets build/ up without tests.
all=(-Dtests=true -Dexamples=true)

# targets FOLDER WORD...: what the tests of these suites, or of these names, need built.
targets() { /usr/bin/python3 "$report" targets "$@"; }

# Without the optimizer, and only what its suites want: a third of the release's minutes.
build_quick() {
  configure build-quick -Dbuildtype=debugoptimized -Doptimization=0 -Ddebug=false -Dwerror=true || return 1
  # shellcheck disable=SC2046
  build build-quick $(targets build-quick -slow $(suites_of build-quick))
}
build_release() {
  configure build "${all[@]}" -Dbuildtype=release -Dwerror=true && build build all
}
# What a sanitizer's build holds is not shipped, so a target's sources are compiled together there, which halves its
# minutes (ADR 0104). A local may then have the name of what another source defines for itself: -Wshadow means nothing.
# Meson 1.0 looks for one object too many of a library that has a multiple of so many sources: then another number does.
together=(-Dunity=on -Dunity_size=15)
# UBSan's vptr check needs RTTI, which lib and drivers are built without. Lines of the source are all
# that a report wants of the debug information: -g1 is built a fifth quicker than -g. GCC 12 warns falsely of
# DPDK's rings where they were read by a precompiled header and are instrumented.
build_asan() {
  configure build-asan -Dbuildtype=debugoptimized -Doptimization=0 -Ddebug=false -Dwerror=true \
    "${together[@]}" -Db_sanitize=address,undefined -Db_lundef=false \
    "-Dcpp_args=-fno-sanitize=vptr -g1 -Wno-shadow -Wno-stringop-overread -Wno-stringop-overflow" || return 1
  # shellcheck disable=SC2046
  build build-asan -j "$(nproc)" $(targets build-asan unit golden vhca)
}
# The tests in which threads meet (test/threads.txt). rte_ring orders by volatile and compiler
# barriers unless told to use C11 atomics, the only ones that the sanitizer understands.
build_tsan() {
  configure build-tsan -Dbuildtype=debugoptimized -Doptimization=1 -Ddebug=false -Dwerror=true \
    "${together[@]}" -Db_sanitize=thread -Db_lundef=false \
    "-Dcpp_args=-DRTE_USE_C11_MEM_MODEL -Wno-tsan -g1 -Wno-shadow -Wno-stringop-overread -Wno-stringop-overflow" || return 1
  # shellcheck disable=SC2046
  build build-tsan -j "$(nproc)" $(targets build-tsan $threads)
}
run_asan() {
  ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:abort_on_error=0 \
  LSAN_OPTIONS=suppressions=$ROOT/test/support/lsan.supp:print_suppressions=0 \
  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    run build-asan asan -t 5 --suite unit --suite golden --suite vhca
}
run_tsan() {
  # shellcheck disable=SC2086
  TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:suppressions=$ROOT/test/support/tsan.supp \
    run build-tsan tsan -t 10 $threads
}
run_memcheck() {
  run build memcheck -t 30 --suite unit --wrapper "valgrind -q --error-exitcode=99 \
--fair-sched=yes --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
--suppressions=$ROOT/test/support/memcheck.supp"
}
# It may be beside others for most of a check.
run_tidy() { run build tidy -t 3 --suite tidy; }
# README's first minute in a root that has nothing. Only its build lies beside other stages: what it runs wants
# the cores, and hugepages of its own.
build_fresh() { usertools/fresh.sh --build "$bare"; }
run_fresh() { usertools/fresh.sh --use "$bare"; }
# The next release of Debian, by the same division.
build_trixie() { usertools/matrix.sh --quick --build trixie; }
run_trixie() { usertools/matrix.sh --quick --json "$stages/$number-trixie.json" trixie; }
# What needs no test's result, the sooner wanted first.
others() {
  stage build-asan build_asan
  [ -z "$threads" ] || stage build-tsan build_tsan
  [ $fresh = no ] || stage fresh-build build_fresh
  [ $releases = no ] || stage trixie-build build_trixie
  stage tidy run_tidy
}
# What stands in a send queue is late wherever no fence holds it (doc/reference/vhca-order.md).
run_weak() { KILIM_VHCA_ORDER=weak:2 run build weak -t 3 --suite vhca --suite golden --suite e2e --suite pyverbs; }
known_threads() {
  meson test -C "$1" --list 2> /dev/null | sed 's,.* / ,,' |
    grep -xFf <(grep -v '^#' test/threads.txt) | tr '\n' ' '
}

kinds=(build run check suite)
[ "$mode" = long ] && kinds+=(oracle)
if ! (need_packages "${kinds[@]}"); then
  say "0 passed, 1 failed, 0 skipped"
  exit 1
fi
reserve_hugepages 128
[ $fresh = no ] || bare=$(mktemp -d "${TMPDIR:-/var/tmp}/kilim-bare.XXXXXX")
say "$mode check on $(nproc) cores"

folder=build build=build_release quicker=()
[ "$mode" = quick ] && folder=build-quick build=build_quick quicker=(--no-suite slow)
stage build "$build"
built=$?
if [ "$mode" != quick ] && [ -f build/build.ninja ]; then
  threads=$(known_threads build)
  beside others
fi
if [ "$built" = 0 ]; then
  for suite in $(suites_of "$folder"); do
    [ "$suite" = tidy ] || stage "$suite" run "$folder" "$suite" --suite "$suite" "${quicker[@]}"
  done
  stage seeds usertools/check-seeds.sh "$folder"
fi
if [ -n "$lane" ]; then
  stage memcheck run_memcheck
  went_well build-asan && stage asan run_asan
  [ -n "$threads" ] && went_well build-tsan && stage tsan run_tsan
  wait "$lane"
  lane=
fi

if [ $releases = yes ]; then
  [ "$mode" != quick ] || stage trixie-build build_trixie
  went_well trixie-build && stage trixie run_trixie
fi

if [ "$mode" = long ] && [ -f build/build.ninja ]; then
  stage weak run_weak
  stage build-fuzz usertools/fuzz.sh --seconds 0 && stage fuzz usertools/fuzz.sh --seconds 120
fi

return_hugepages
if [ $fresh = yes ]; then
  [ "$mode" != quick ] || stage fresh-build build_fresh
  went_well fresh-build && stage fresh run_fresh
fi
exec 3>&1
/usr/bin/python3 "$report" all "$stages" >&3
