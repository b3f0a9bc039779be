// SPDX-License-Identifier: BSD-3-Clause
// A binder on a virtual device: a loopback connection, keys, one registered area, and an account of
// every completion. One thread; everything is released by the destructors.
#pragma once

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "kilim/detail/device/recovery.hh"
#include "kilim/detail/mkey/mkey_binder_burst.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "mlx5_fixture.hh"

namespace kilim::test {

struct KeyRig {
  static constexpr uint64_t area_bytes = 1 << 20;
  static constexpr uint32_t entries = 8;

  device::Device& device;
  std::vector<std::byte> memory;  // a half to gather from, a half to write to
  Loop loop;
  std::optional<mr::Mr> region;
  std::unique_ptr<mkey::MkeyPool> pool;
  std::unique_ptr<mkey::Epochs> epochs;
  std::unique_ptr<mkey::MkeyBinder> binder;
  std::mt19937_64 random{1};

  explicit KeyRig(device::Device& d, uint32_t keys = 64,
                  mkey::InvalidatePolicy invalidate = mkey::InvalidatePolicy::at_once)
      : device(d), memory(area_bytes), loop(d, mr::Access::all) {
    for (std::byte& b : memory) b = static_cast<std::byte>(random());
    Result<mr::Mr> mr = mr::Mr::create(d.registrar(), memory, mr::Access::all, 4096);
    auto p = mkey::MkeyPool::create(d.keys(), keys, entries);
    auto e = mkey::Epochs::create(nullptr, 4);
    if (!loop.ok() || !mr || !p || !e) return;
    region.emplace(*std::move(mr));
    pool = *std::move(p);
    epochs = *std::move(e);
    const mkey::MkeyBinderConfig config{.fences = umr::FencePlanner{d.caps().umr_fence},
                                        .invalidate = invalidate,
                                        .keep_atomic = !d.caps().umr_atomic,
                                        .max_indirection = d.caps().max_indirection};
    auto l = mkey::MkeyBinder::create(*loop.sq, *pool, *epochs, config);
    if (l) binder = *std::move(l);
  }
  ~KeyRig() { loop.qp.destroy(); }
  [[nodiscard]] bool ok() const { return binder != nullptr; }
  [[nodiscard]] const mr::Region& mr() const { return region->region(); }
  static constexpr mkey::Bind all{.access = umr::mkey_access(mr::Access::all)};

  // Pieces of the first half and the bytes that they show.
  struct Layout {
    std::vector<umr::Piece> pieces;
    std::vector<std::byte> bytes;
    [[nodiscard]] umr::View view() const { return umr::View::of(pieces); }
  };
  Layout layout() {
    Layout l;
    for (uint64_t i = 0, n = 1 + random() % entries; i < n; i++) {
      const uint64_t bytes = 1 + random() % 300;
      const uint64_t at = random() % (area_bytes / 2 - bytes);
      l.pieces.push_back({mr().iova + at, static_cast<uint32_t>(bytes), mr().lkey});
      l.bytes.insert(l.bytes.end(), &memory[at], &memory[at] + bytes);
    }
    return l;
  }
  [[nodiscard]] queue::Remote target(uint64_t slot) const {
    return {mr().iova + area_bytes / 2 + slot * 4096, mr().rkey};
  }
  [[nodiscard]] bool arrived(uint64_t slot, const Layout& l) const {
    return std::memcmp(&memory[area_bytes / 2 + slot * 4096], l.bytes.data(), l.bytes.size()) == 0;
  }

  // Every completion by its wr id, and how often the device said nothing of one.
  struct Ending {
    uint32_t good = 0, failed = 0, flushed = 0, lost = 0;
    [[nodiscard]] uint32_t all() const { return good + failed + flushed + lost; }
  };
  std::map<uint64_t, Ending> endings;
  bool error = false;

  void completed(const queue::Completion& c) noexcept {
    if (!c.of_requester()) return;
    Ending& e = endings[binder->handle_completion(c)];
    if (c.ok()) e.good++;
    if (!c.ok() && c.syndrome == prm::Syndrome::wr_flush) e.flushed++;
    if (!c.ok() && c.syndrome != prm::Syndrome::wr_flush) e.failed++;
    if (!c.ok()) error = true;
  }
  void lost(uint64_t id, bool signalled) noexcept {
    if (signalled) endings[id].lost++;
  }
  // Lets the device work until nothing is posted, or an error has come.
  bool settle(int turns = 5000) {
    for (int i = 0; i < turns && !loop.sq->idle() && !error; i++) {
      device.progress();
      queue::Completion c[16];
      const uint32_t n = loop.send_cq->poll(c);
      for (uint32_t k = 0; k < n; k++) completed(c[k]);
    }
    binder->poll();
    return loop.sq->idle() && !error;
  }
  Status recover(std::chrono::milliseconds limit = std::chrono::milliseconds{2000}) {
    const device::Recovery<> r{device,    loop.qp->handle, *loop.sq, *loop.send_cq,
                               &*loop.rq, &*loop.recv_cq,  limit};
    Status s = device::recover(r, *this);
    binder->recover();
    loop.sq->reset();
    loop.rq->reset([](uint64_t) noexcept {});
    error = false;
    return s;
  }
};

}  // namespace kilim::test
