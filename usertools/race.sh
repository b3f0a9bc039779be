#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Kilim against DPDK's own mlx5 driver: what a forwarded packet takes, in instructions and time, in 20
# settings: completions one by one and compressed (the driver's default), packets that ask for something,
# that have several segments or several holders; with the device's lines hot, in L3 and in memory. Debian's
# net_mlx5 makes its queues on a virtual device; then its burst functions, net_kilim's and Kilim's own
# run in turns in one process, each on rings of one size that one emulated NIC serves outside of what is
# measured. Then other drivers and whole programs, for context. Some minutes.
# Usage: usertools/race.sh [--quick] [--gate] [--fields] [--write] [--samples N] [--build FOLDER]
#   --quick         the race alone
#   --gate          its instructions alone; fails where a limit is passed
#   --fields        compares what each side delivers and asks for; nothing is measured
#   --write         tables and plot go into doc/performance.md and doc/race.svg
#   --samples N     of each time (60)
#   --build FOLDER  a release build (build)
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

build=$ROOT/build
options "build=" "quick gate fields write samples=" "$@"

exec < /dev/null
need_packages run check
[ -x "$build/test/perf/race" ] || fail "no $build/test/perf/race: build the project first, in release"
trap return_hugepages EXIT
trap 'exit 130' INT TERM HUP
reserve_hugepages 80
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$ROOT/test/perf/race.py" --launcher "$build/app/kilim-vhca" \
  --program "$build/test/perf/race" "${words[@]}"
