#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Asks the kernel what it thinks of the virtual adapter: boots Debian's kernel with rdma_rxe under
# QEMU (emulated, no KVM, no root), joins it to the adapter by a wire that can lose packets, and
# compares both with the InfiniBand specification, each as requester and as its peer. Then its
# connection manager: what it answers to messages, what it says to calls of librdmacm, and programs
# of librdmacm between both.
# Usage: usertools/oracle.sh [--build FOLDER] [--seed N] [--mtu 1024|4096] [--only TEXT]
#                            [--part PART] [--cm FILE]
#   --build FOLDER  where the adapter is built (build)
#   --seed N        of random requests and of what is lost (1)
#   --mtu N         of the paths (1024)
#   --only TEXT     the scenarios of verbs whose names contain TEXT (all), and no others
#   --part PART     verbs, messages, calls or peers (all)
#   --cm FILE       nothing of that: what the kernel's connection manager answers is written to FILE
# Packages that are missing are installed (root only); the kernel's is fetched and unpacked, never
# installed. Everything made is removed. The last line is `oracle: N of N agree`.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"

build=$ROOT/build cm=
options "build= cm=" "seed= mtu= only= part=" "$@"

exec < /dev/null
need_packages run oracle
programs=(app/kilim-vhca test/oracle/peer test/oracle/cm_listener test/oracle/cm_asker)
[ -n "$cm" ] && programs=(test/oracle/cm_listener)
for program in "${programs[@]}"; do
  [ -x "$build/$program" ] || fail "no $build/$program: build the project first"
done

# The names of sockets in it have to be short.
scratch=$(mktemp -d /tmp/kilim-oracle-XXXXXX) || exit 1
driver=
end() {
  [ -n "$driver" ] && kill "$driver" 2> /dev/null && wait "$driver" 2> /dev/null
  rm -rf "$scratch"
}
trap end EXIT
trap 'exit 130' INT TERM HUP

# What of the kernel's package no such guest needs; of fs rdma_cm needs configfs.
unused=(sound drivers/gpu drivers/media drivers/staging drivers/scsi drivers/net/wireless
  drivers/net/ethernet drivers/iio drivers/hid)
fetch_kernel() {
  local name
  name=$(apt-cache depends linux-image-amd64 2> /dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -1)
  if [ -z "$name" ] && is_root && apt-get -qq update > /dev/null; then
    name=$(apt-cache depends linux-image-amd64 |
      sed -n 's/^ *Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -1)
  fi
  [ -n "$name" ] || fail "apt knows no linux-image-amd64: apt-get update, as root"
  (cd "$scratch" && apt-get -qq download "$name" > log 2>&1) ||
    { is_root && apt-get -qq update && (cd "$scratch" && apt-get -qq download "$name") \
      > "$scratch/log" 2>&1; } ||
    { cat "$scratch/log" >&2 && fail "apt-get cannot fetch $name"; }
  mkdir "$scratch/kernel"
  dpkg-deb --fsys-tarfile "$scratch"/linux-image-*.deb |
    tar -x -C "$scratch/kernel" "${unused[@]/#/--exclude=*/kernel/}" &&
    rm "$scratch"/linux-image-*.deb || fail "$name cannot be unpacked"
  say "the kernel is $name"
}

fetch_kernel
script=(oracle.py "${words[@]}")
[ -n "$cm" ] && script=(cm_record.py --write "$cm")
# In the background, so that a signal is heard at once.
/usr/bin/python3 -B "$ROOT/test/oracle/${script[0]}" --build "$build" --folder "$scratch" \
  --kernel "$scratch/kernel" "${script[@]:1}" &
driver=$!
wait "$driver"
code=$?
driver=
exit $code
