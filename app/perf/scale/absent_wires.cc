// SPDX-License-Identifier: BSD-3-Clause
// The lines of wires in a build without the virtual HCA (Meson option `components`): they are
// listed, and do no work.
#include "perf/compare/line.hh"

namespace kilim::perf {
namespace {

uint32_t no_work(Rig&, const Case&) {
  return 0;
}

constexpr Case cases[] = {{"not built", 1}};
constexpr Side peers[] = {{"none", no_work}};

}  // namespace

const Line wire_unix_line = {
    "frame over a unix wire / bare datagram", 0, 0, cases, {"unix:", no_work}, peers};
const Line wire_udp_line = {
    "frame over a udp wire / bare datagram", 0, 0, cases, {"udp:", no_work}, peers};
const Line wire_shm_line = {
    "frame over a shm wire / two copies", 0, 0, cases, {"shm:", no_work}, peers};

}  // namespace kilim::perf
