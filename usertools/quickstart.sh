#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Kilim at work on a machine without a ConnectX: two hosts, each in a network namespace of its own,
# talk TCP/IP through kilim-testpmd, whose two ports are virtual HCAs wired to veth interfaces in a
# third namespace. Installs what it needs, builds a release into build/, pings, sends a file over
# HTTP and compares its sha256. Removes everything it made on every way out.
# Without root the same frames come from and go to pcap files.
#
# Usage: usertools/quickstart.sh [--fwd io|umr] [--size MIB] [--files] [--json FILE] [--keep]
#                                [--program PATH | --build]
#   --fwd io         pass frames on (default); umr: each frame leaves as a new header and the
#                    received payload in place, bound together by a memory key
#   --size MIB       of the file that is sent, default 256
#   --files          pcap files instead of namespaces, as without root
#   --json FILE      put kilim-testpmd's own statistics there
#   --keep           leave the logs behind and say where they are
#   --program PATH   use this kilim-testpmd; install and build nothing
#   --build          install and build, run nothing
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

fwd=io size=256 json= keep=no program= files=no build=no
options "fwd= size= json= program= keep files build" "" "$@"
case $fwd in
  io | umr) ;;
  *) fail "--fwd $fwd: the hosts' TCP/IP stacks need their own addresses kept, so io or umr" ;;
esac
[[ $size =~ ^[1-9][0-9]{0,4}$ ]] || fail "--size $size: a whole number of MiB from 1 to 99999"

exec < /dev/null
dir=$(mktemp -d "${TMPDIR:-/tmp}/kilim.XXXXXX")
tag=kilim$$
h1=$tag-h1 h2=$tag-h2 mid=$tag-mid
spaces=() jobs_started=()

cleanup() {
  trap '' INT TERM HUP
  local ns pid i
  end_attended
  for pid in "${jobs_started[@]}"; do kill "$pid" 2> /dev/null; done
  for ((i = 0; i < 30; i++)); do   # 3 s to go by themselves
    kill -0 "${jobs_started[@]}" 2> /dev/null || break
    sleep 0.1
  done
  for ns in "${spaces[@]}"; do
    for pid in $(ip netns pids "$ns" 2> /dev/null); do kill -KILL "$pid" 2> /dev/null; done
    ip netns del "$ns" 2> /dev/null
  done
  wait 2> /dev/null
  return_hugepages
  if [ $keep = yes ]; then
    rm -f "$dir"/www/file "$dir"/*.pcap
    say "logs: $dir"
  else
    rm -rf "$dir"
  fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

give_up() {
  say "quickstart: $*" >&2
  if [ -s "$dir/testpmd.err" ]; then
    say "kilim-testpmd said:" >&2
    tail -20 "$dir/testpmd.err" >&2
  fi
  say "quickstart: failed" >&2
  exit 1
}

prepare_program() {
  if [ -z "$program" ]; then
    need_packages build run
    say "building a release into build/"
    # Tests want packages of their own; a folder that check.sh set up keeps them.
    configure "$ROOT/build" -Dbuildtype=release new:-Dtests=false || give_up "could not configure the build"
    build "$ROOT/build" programs || give_up "the build failed"
    [ $build = no ] || exit 0
    program=$ROOT/build/app/kilim-testpmd
  fi
  [ -x "$program" ] || give_up "$program is not an executable"
  reserve_hugepages 128
}

# The forwarding core is the last CPU this process may use; all else runs on the others.
choose_cores() {
  local list
  list=$(/usr/bin/python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))')
  read -r -a cpus <<< "$list"
  work=${cpus[-1]} rest=${cpus[0]}
  [ ${#cpus[@]} -gt 1 ] && rest=$(IFS=,; echo "${cpus[*]:0:${#cpus[@]}-1}")
  lcores="0@${cpus[0]},1@$work"
}

eal_arguments() {
  eal=(--lcores "$lcores" --no-pci --no-telemetry --log-level=error)
  if [ $HUGEPAGES = yes ]; then
    eal+=(--in-memory)
  else
    eal+=(--no-huge --no-shconf -m 256)
  fi
}

# A line a second out of kilim-testpmd's statistics; all of them go to the log.
live() { tee "$dir/testpmd.out" | /usr/bin/python3 -u "$ROOT/usertools/summary.py" --live; }

# start_testpmd PREFIX... -- WIRE0 WIRE1 APP-ARGUMENT...
start_testpmd() {
  local prefix=() wires=()
  while [ "$1" != -- ]; do prefix+=("$1") && shift; done
  shift
  wires=("$1" "$2")
  shift 2
  # The frames' memory is more than an ordinary user may lock; nothing here really locks it.
  KILIM_VHCA_MEMLOCK=ignore XDG_RUNTIME_DIR=$dir "${prefix[@]}" "$program" "${eal[@]}" \
    --vdev "net_kilim0,hca=vhca0,wire=${wires[0]}" --vdev "net_kilim1,hca=vhca1,wire=${wires[1]}" \
    -- "--fwd=$fwd" --stats-period=1 "--json=$dir/stats.json" "$@" \
    > >(live) 2> "$dir/testpmd.err" &
  testpmd=$!
  jobs_started+=($testpmd)
}

stop_testpmd() {
  local i code
  kill -INT $testpmd 2> /dev/null
  for ((i = 0; i < 100; i++)); do
    kill -0 $testpmd 2> /dev/null || break
    sleep 0.1
  done
  kill -KILL $testpmd 2> /dev/null && give_up "kilim-testpmd did not stop within 10 s"
  wait $testpmd
  code=$?
  [ $code = 0 ] || give_up "kilim-testpmd ended with $code"
}

summary() {
  [ -s "$dir/stats.json" ] || give_up "kilim-testpmd left no statistics"
  [ -z "$json" ] || cp "$dir/stats.json" "$json" || give_up "cannot write $json"
  /usr/bin/python3 "$ROOT/usertools/summary.py" "$dir/stats.json" || give_up "no summary"
}

# A namespace that can be made is not yet one in which a program runs: where / is no mount point, as in a
# plain chroot, `ip netns exec` fails.
may_have_namespaces() {
  local code
  ip netns add "$tag-try" 2> /dev/null || return 1
  ip netns exec "$tag-try" true 2> /dev/null
  code=$?
  ip netns del "$tag-try"
  return $code
}

# host NAMESPACE NUMBER: a host whose eth0 is a veth; the other end, to<N>, is in the middle.
host() {
  ip netns add "$1" || give_up "cannot make a network namespace"
  spaces+=("$1")
  ip -n "$1" link add eth0 type veth peer name "to$2" netns $mid &&
    ip -n "$1" addr add "198.18.0.$2/24" dev eth0 &&
    ip -n "$1" link set lo up && ip -n "$1" link set eth0 up &&
    ip -n $mid link set "to$2" up || give_up "cannot make a veth pair"
}

wait_for_first_ping() {
  local i
  for ((i = 0; i < 60; i++)); do
    kill -0 $testpmd 2> /dev/null || give_up "kilim-testpmd stopped early"
    attend ip netns exec $h1 ping -q -c 1 -W 1 198.18.0.2 > /dev/null && return 0
    attend sleep 0.2
  done
  give_up "no answer to a ping within a minute"
}

wait_for_server() {
  local i
  for ((i = 0; i < 100; i++)); do
    ip netns exec $h2 bash -c '< /dev/tcp/198.18.0.2/8000' 2> /dev/null && return 0
    attend sleep 0.1
  done
  give_up "the HTTP server did not start: $(cat "$dir/http.log")"
}

through_namespaces() {
  ip netns add $mid || give_up "cannot make a network namespace"
  spaces+=($mid)
  host $h1 1
  host $h2 2
  mkdir "$dir/www"
  head -c "${size}M" /dev/urandom > "$dir/www/file"
  sha256sum < "$dir/www/file" > "$dir/sent.sha"
  start_testpmd ip netns exec $mid -- af_packet:to1 af_packet:to2
  wait_for_first_ping
  say "ping: 198.18.0.1 -> kilim-testpmd ($fwd) -> 198.18.0.2"
  attend ip netns exec $h1 ping -q -c 10 -i 0.2 -W 2 198.18.0.2 > "$dir/ping" ||
    give_up "the hosts lost each other: $(cat "$dir/ping")"
  grep -E 'packets|rtt' "$dir/ping" | sed 's/^/  /'
  ip netns exec $h2 taskset -c "$rest" /usr/bin/python3 -m http.server 8000 --bind 198.18.0.2 \
    --directory "$dir/www" > "$dir/http.log" 2>&1 &
  jobs_started+=($!)
  say "http: $size MiB from 198.18.0.2 to 198.18.0.1"
  wait_for_server
  attend ip netns exec $h1 taskset -c "$rest" curl -sS --max-time 200 -o "$dir/got" \
    http://198.18.0.2:8000/file ||
    give_up "curl failed"
  sha256sum < "$dir/got" > "$dir/got.sha"
  stop_testpmd
  cmp -s "$dir/sent.sha" "$dir/got.sha" || give_up "the file that arrived is another one"
  say "sha256: equal, $(cut -c1-16 "$dir/got.sha")..."
  rm -f "$dir/got"
}

through_files() {
  say "left out: namespaces, the hosts' TCP/IP stacks, ping and HTTP (they need root and network namespaces)"
  local frames=$((size * 1024))
  /usr/bin/python3 "$ROOT/usertools/pcap_file.py" make "$dir/in.pcap" $frames &&
    /usr/bin/python3 "$ROOT/usertools/pcap_file.py" make "$dir/none.pcap" 0 ||
    give_up "cannot write pcap files into $dir"
  say "pcap: $frames frames through kilim-testpmd ($fwd)"
  start_testpmd env -- "pcap:$dir/in.pcap" "pcap:$dir/none.pcap:$dir/out.pcap" \
    --num-packets=$frames
  attend tail --pid=$testpmd -f /dev/null
  stop_testpmd
  /usr/bin/python3 "$ROOT/usertools/pcap_file.py" compare "$dir/in.pcap" "$dir/out.pcap" ||
    give_up "what arrived is not what was sent"
}

prepare_program
choose_cores
eal_arguments
if [ $files = no ] && is_root && may_have_namespaces; then
  through_namespaces
else
  through_files
fi
summary
say "quickstart: ok"
