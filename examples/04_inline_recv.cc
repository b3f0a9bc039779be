// SPDX-License-Identifier: BSD-3-Clause
// Inline receive: short messages arrive in their CQEs, where the program reads them, and the
// buffers that were posted for them are not written. A longer message arrives in its buffer. Shows
// whether the queue has inline receive and why, a view of each message, and the counts. Runs
// without hardware: build/examples/04_inline_recv [DEVICE]
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "kilim/device.hh"
#include "kilim/inline_recv.hh"
#include "kilim/queue.hh"
#include "kilim/region.hh"

namespace {

using namespace kilim;

constexpr const char* messages[] = {
    "short", "a message of 32 bytes, not more.",
    "and one of 64 bytes, which an entry of 128 bytes just can carry.",
    "this one is a little longer than that: it comes in the buffer that was posted for it"};
constexpr uint32_t count = sizeof messages / sizeof *messages;
constexpr uint32_t buffer_bytes = 128;

int refused(const char* what, const char* why) {
  std::fprintf(stderr, "04_inline_recv: %s: %s\n", what, why);
  return 1;
}

// One connection to itself, with completion entries that have room for 64 bytes.
struct Connection {
  device::OwnedCq send_cq, recv_cq;
  device::OwnedQp qp;

  Status make(device::Device& device) {
    auto a = device::create_cq(device, 16);
    if (!a) return a.error();
    auto b = device::create_cq(device, {.entries = 16, .cqe_bytes = 128});
    if (!b) return b.error();
    send_cq = *std::move(a);
    recv_cq = *std::move(b);
    auto made = device::create_rc_loopback(device, {.queues = {.send_cq = send_cq->handle,
                                                               .recv_cq = recv_cq->handle,
                                                               .send_wqebbs = 16,
                                                               .recv_wrs = count}});
    if (!made) return made.error();
    qp = *std::move(made);
    return Done{};
  }
};

// Posts the first half of `memory` and sends from the second. Returns how many messages were right.
uint32_t run(device::Device& device, Connection& connection, const mr::Region& region,
             std::vector<char>& memory) {
  std::vector<uint64_t> send_ids(connection.qp->sq.wqebb_count);
  std::vector<uint64_t> recv_ids(connection.qp->rq.wqe_count);
  queue::Sq sq{connection.qp->sq, send_ids};
  queue::Rq rq{connection.qp->rq, recv_ids};
  queue::Cq received{connection.recv_cq->geometry};
  queue::WqeCursor cursor{sq};
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t at = i * buffer_bytes, from = (count + i) * buffer_bytes;
    const auto bytes = static_cast<uint32_t>(std::strlen(messages[i]));
    std::memcpy(&memory[from], messages[i], bytes);
    (void)rq.post({region.iova + at, buffer_bytes, region.lkey}, at);
    (void)queue::send(cursor, queue::Sge{region.iova + from, bytes, region.lkey}, {});
  }
  rq.ring();
  cursor.commit();

  queue::InlineCounters hits;
  uint32_t right = 0;
  for (uint32_t n = 0, turn = 0; n < count && turn < 100000; turn++) {
    device.progress();
    n += queue::for_each_completion(
        received, count, hits, [&](const queue::Completion& c, std::span<const std::byte> entry) {
          if (!c.ok()) return;
          const char* posted = &memory[rq.retire(c.wqe_counter)];
          // The bytes in the CQE are valid only here: afterwards the device may overwrite it.
          const void* data = entry.empty() ? static_cast<const void*>(posted) : entry.data();
          std::printf("%2u bytes in the %s: %.*s\n", c.byte_len, entry.empty() ? "buffer" : "entry",
                      static_cast<int>(c.byte_len), static_cast<const char*>(data));
          const bool untouched = posted[0] == '\0';
          right += std::memcmp(data, messages[c.wqe_counter], c.byte_len) == 0 &&
                           untouched != entry.empty()
                       ? 1
                       : 0;
        });
  }
  std::printf("%lu messages of %lu bytes came in their entries\n", hits.messages.read(),
              hits.bytes.read());
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--help")
    return std::puts("usage: 04_inline_recv [DEVICE]    a card's name or vhcaN; default vhca0") < 0;
  auto attached = attach::resolve({.name = argc > 1 ? argv[1] : "vhca0"});
  if (!attached) return refused("device", attached.error().what);
  device::Device& device = *attached->device;
  std::vector<char> memory(std::size_t{2} * count * buffer_bytes);
  auto region = mr::Mr::create(device.registrar(), std::as_writable_bytes(std::span{memory}),
                               mr::Access::local, 4096);
  if (!region) return refused("memory", region.error().what);
  Connection connection;
  if (Status s = connection.make(device); !s) return refused("queues", s.error().what);
  const device::InlineDecision& inlined = connection.qp->inlined;
  std::printf("inline receive is %s; up to %u bytes\n", inlined.why, inlined.received);
  return run(device, connection, region->region(), memory) == count ? 0 : 1;
}
