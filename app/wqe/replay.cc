// SPDX-License-Identifier: BSD-3-Clause
// Replays a recording: first a look through it for the keys and the memory that it names, then the
// WQEs with their numbers changed. Every WQE asks for a completion, one doorbell a recorded one.
#include "replay.hh"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "kilim/device.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/umr_seg.hh"
#include "kilim/queue.hh"
#include "kilim/region.hh"
#include "mlx5/open.hh"
#include "vhca/entry/attach.hh"

namespace kilim::app {
namespace {

using prm::Opcode;
namespace lint = prm::lint;
constexpr uint64_t max_memory = uint64_t{1} << 28;
constexpr uint64_t page = 4096;

// What the recording says of a key, and what stands for it here.
struct ReplayKey {
  bool bound = false;  // a UMR names it
  uint64_t low = ~uint64_t{0}, high = 0;
  uint32_t here = 0;  // without its tag
  std::vector<std::byte> memory;
  std::optional<mr::Mr> region;
};
using Keys = std::map<uint32_t, ReplayKey>;  // by index

// Makes a connected queue's WQE: without the segments that say where it goes, or how a frame
// begins.
std::vector<std::byte> connected(lint::Bytes w, lint::QueueKind kind) {
  std::vector<std::byte> out(w.begin(), w.end());
  if (w.size() < sizeof(prm::CtrlSeg)) return out;
  const auto op = static_cast<Opcode>(prm::ctrl::opcode::get(lint::segment_at<prm::CtrlSeg>(w, 0)));
  const std::size_t there = lint::data_at(w, op, kind);
  const std::size_t here = lint::data_at(w, op, lint::QueueKind::connected);
  if (there <= here) return out;
  const auto from = out.begin() + sizeof(prm::CtrlSeg);
  out.erase(from, from + static_cast<std::ptrdiff_t>(
                             std::min(there - here, out.size() - sizeof(prm::CtrlSeg))));
  return out;
}

// each_wqe() of what a connected queue is to be given.
template <typename F>
void each_connected(const Doorbell& d, F f) {
  each_wqe(d, [&](lint::Bytes w) {
    const std::vector<std::byte> bare = connected(w, kind_of(d));
    f(lint::Bytes{bare});
  });
}

// Calls f(place of the key, address, bytes) for each key that a WQE names beside the UMR's own.
template <typename F>
void each_key(lint::Bytes w, F f) {
  const auto c = lint::segment_at<prm::CtrlSeg>(w, 0);
  const auto op = static_cast<Opcode>(prm::ctrl::opcode::get(c));
  if (op == Opcode::umr) {
    for (std::size_t at = lint::list_at; at + 16 <= w.size(); at += 16) {
      const auto k = lint::segment_at<prm::Klm>(w, at);
      if (k.mkey.host() != 0) f(at + 4, k.address.host(), k.byte_count.host());
    }
    return;
  }
  uint64_t bytes = 0;
  std::size_t at = lint::data_at(w, op, lint::QueueKind::connected);
  const auto head = lint::head_of(op);
  while (at != 0 && at + 16 <= w.size()) {
    const auto d = lint::segment_at<prm::DataSeg>(w, at);
    const uint32_t n = d.byte_count.host();
    const bool inlined = (n & prm::inline_flag) != 0;
    if (!inlined) f(at + 4, d.addr.host(), n);
    bytes += n & ~prm::inline_flag;
    at += inlined ? round_up((n & prm::inline_length_mask) + 4, 16) : 16;
  }
  if (!head.remote || w.size() < sizeof(c) + sizeof(prm::RaddrSeg)) return;
  f(sizeof(c) + 8, lint::segment_at<prm::RaddrSeg>(w, sizeof(c)).raddr.host(), bytes);
}

uint32_t word_at(lint::Bytes w, std::size_t at) {
  be32 v;
  std::memcpy(&v, w.data() + at, sizeof(v));
  return v.host();
}

void scan(const std::vector<Doorbell>& all, Keys& keys) {
  for (const Doorbell& d : all) {
    each_connected(d, [&](lint::Bytes w) {
      const auto c = lint::segment_at<prm::CtrlSeg>(w, 0);
      if (static_cast<Opcode>(prm::ctrl::opcode::get(c)) == Opcode::umr)
        keys[c.imm.host() >> 8].bound = true;
      each_key(w, [&](std::size_t at, uint64_t address, uint64_t bytes) {
        ReplayKey& k = keys[word_at(w, at) >> 8];
        k.low = std::min(k.low, address);
        k.high = std::max(k.high, address + bytes);
      });
    });
  }
}

bool make_keys(device::Device& device, Keys& keys) {
  for (auto& [index, k] : keys) {
    if (k.bound) {
      std::array<mr::IndirectMkey, 1> made;
      constexpr uint32_t entries = 512;
      if (!device.keys().create_mkeys(entries, made).ok()) return false;
      k.here = made[0].lkey.value();
      continue;
    }
    const uint64_t first = k.low & ~(page - 1);
    if (k.high <= k.low || k.high - first > max_memory) continue;  // refused when it is used
    const uint64_t bytes = (k.high - first + page - 1) & ~(page - 1);
    k.memory.resize(bytes + page);
    auto* base = k.memory.data();
    base += (page - reinterpret_cast<uintptr_t>(base) % page) % page;
    auto region = device.registrar().register_memory_at(std::span(base, bytes), Iova{first},
                                                        mr::Access::all, page);
    if (!region) return false;
    k.here = region->lkey.value();
  }
  return true;
}

// The tag of a bound key is the recording's; a region's is its own.
uint32_t translated(const Keys& keys, uint32_t key) {
  const auto at = keys.find(key >> 8);
  if (at == keys.end() || at->second.here == 0) return key;
  const bool bound = at->second.bound;
  return bound ? (at->second.here & ~0xffu) | (key & 0xff) : at->second.here;
}

struct Connection {
  device::OwnedCq cq;
  device::OwnedQp qp;
  std::vector<uint64_t> ids;
  std::unique_ptr<queue::Sq> sq;
  std::unique_ptr<queue::Cq> done;

  bool make(device::Device& d) {
    auto c = device::create_cq(d, 4096);
    if (!c) return false;
    cq = *std::move(c);
    device::RcRequest request;
    request.queues = {.send_cq = cq->handle,
                      .recv_cq = cq->handle,
                      .send_wqebbs = 4096,
                      .recv_wrs = 16,
                      .max_recv_sge = 1,
                      .inline_receive = device::InlineReceive::off};
    request.umr = true;
    request.access = mr::Access::all;
    auto q = device::create_rc_loopback(d, request);
    if (!q) return false;
    qp = *std::move(q);
    ids.resize(qp->sq.wqebb_count);
    sq = std::make_unique<queue::Sq>(qp->sq, ids);
    done = std::make_unique<queue::Cq>(cq->geometry);
    return true;
  }
};

// One WQE into the queue, with the numbers of here. False: it does not fit.
bool post(queue::WqeCursor& cursor, lint::Bytes w, const Keys& keys, const queue::Sq& sq,
          uint32_t place) {
  std::vector<std::byte> copy(w.begin(), w.end());
  const auto c = lint::segment_at<prm::CtrlSeg>(w, 0);
  const auto op = static_cast<Opcode>(prm::ctrl::opcode::get(c));
  const bool names_key = op == Opcode::umr || op == Opcode::local_inval;
  each_key(w, [&](std::size_t at, uint64_t, uint64_t) {
    const be32 key{translated(keys, word_at(w, at))};
    std::memcpy(copy.data() + at, &key, sizeof(key));
  });
  const Octowords ds{static_cast<uint32_t>(w.size() / octoword_bytes)};
  if (!cursor.fits(ds)) return false;
  const uint32_t imm = names_key ? translated(keys, c.imm.host()) : c.imm.host();
  cursor.control(op, ds, prm::ctrl::with_mode(c.fm_ce_se, prm::ctrl::cq_update), imm);
  const queue::SqGeometry& g = sq.geometry();
  for (std::size_t at = octoword_bytes; at < copy.size(); at += octoword_bytes) {
    const std::size_t ring = std::size_t{g.wqebb_count} * wqebb_bytes;
    std::memcpy(g.buf + (std::size_t{place} * wqebb_bytes + at) % ring, copy.data() + at,
                octoword_bytes);
  }
  cursor.advance(wqebbs_for(ds).value(), 0);
  return true;
}

// Completions of `wanted` WQEs; how many failed.
unsigned collect(device::Device& device, Connection& c, unsigned wanted) {
  unsigned failed = 0;
  for (unsigned turn = 0; wanted > 0 && turn < 100'000; turn++) {
    queue::Completion done[16];
    const uint32_t n = c.done->poll(done);
    if (n == 0) device.progress();
    for (uint32_t i = 0; i < n; i++) {
      wanted--;
      if (!done[i].ok()) failed++;
      std::printf("WQE %u: %s\n", done[i].wqe_counter, prm::verbs_name(done[i].syndrome));
      c.sq->retire(done[i].wqe_counter);
    }
  }
  if (wanted > 0) std::printf("%u WQEs have no completion\n", wanted);
  return failed + wanted;
}

// Posts what one doorbell told; how many failed.
unsigned ring(device::Device& device, Connection& c, const Doorbell& d, const Keys& keys) {
  queue::WqeCursor cursor{*c.sq};
  unsigned posted = 0, failed = 0;
  each_connected(d, [&](lint::Bytes w) {
    const uint32_t place = c.sq->posted() + (c.sq->credits().value() - cursor.room().value());
    (post(cursor, w, keys, *c.sq, place) ? posted : failed)++;
  });
  cursor.commit();
  return failed + collect(device, c, posted);
}

int refuse(const char* why) {
  std::fprintf(stderr, "kilim-wqe: %s\n", why);
  return 2;
}

}  // namespace

int replay(const std::vector<Doorbell>& all) {
  DeviceSpec config;
  config.name = "vhca-replay";
  config.lint = "warn";
  auto attached = vhca::entry::attach(config);
  auto run = [](void* arg) { static_cast<vhca::entry::Attached*>(arg)->poll(); };
  if (!attached) return refuse(attached.error().what);
  auto device = mlx5::open(config.name.c_str(), {.run = run, .arg = *attached});
  if (!device) return refuse(device.error().what);
  Keys keys;
  scan(all, keys);
  if (!make_keys(**device, keys)) return refuse("no keys can be made");
  std::map<uint32_t, Connection> queues;
  unsigned failed = 0;
  for (const Doorbell& d : all) {
    Connection& c = queues[d.record.qpn];
    if (!c.sq && !c.make(**device)) return refuse("no queue can be made");
    failed += ring(**device, c, d, keys);
  }
  std::printf("%zu doorbells replayed, %u WQEs failed\n", all.size(), failed);
  for (auto& [number, c] : queues) c.qp.destroy();
  return failed != 0 ? 1 : 0;
}

}  // namespace kilim::app
