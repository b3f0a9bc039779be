// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/port/calibrate.hh"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/chooser/chooser_bench.hh"
#include "kilim/detail/device/owned.hh"
#include "kilim/detail/mem/block.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/sq.hh"

namespace kilim::inline v1::port {
namespace {

// Keys that go back where they came from.
struct Keys {
  explicit Keys(mr::MkeySource& from) noexcept : source(from) {}
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys() { source.destroy_mkeys({all.data(), count}); }
  mr::MkeySource& source;
  std::array<mr::IndirectMkey, chooser::bench_keys> all;
  std::size_t count = 0;
};

// The order of the members matters: queue pair and region go before what they use.
struct Stage {
  explicit Stage(device::Device& d) noexcept : device(d), keys(d.keys()) {}

  Status open() {
    if (Status s = open_queue(); !s) return s;
    auto mapped = mem::Block::map(chooser::bench_bytes, device.numa_node());
    if (!mapped) return mapped.error();
    block.emplace(*std::move(mapped));
    auto registered = mr::Mr::create(device.registrar(), block->span(), mr::Access::all,
                                     block->range().page_bytes);
    if (!registered) return registered.error();
    region.emplace(*std::move(registered));
    if (!device.caps().umr) return Done{};
    const uint32_t entries = std::min(chooser::bench_pieces, device.caps().max_key_entries);
    if (device.keys().create_mkeys(entries, keys.all)) keys.count = keys.all.size();
    return Done{};
  }
  Status open_queue() {
    auto made = device::create_cq(device, chooser::bench_wqebbs);
    if (!made) return made.error();
    owned_cq = *std::move(made);
    device::RcRequest request;
    request.queues = {.send_cq = owned_cq->handle,
                      .recv_cq = owned_cq->handle,
                      .send_wqebbs = chooser::bench_wqebbs};
    request.access = mr::Access::all;
    request.umr = device.caps().umr;
    auto pair = device::create_rc_loopback(device, request);
    if (!pair) return pair.error();
    qp = *std::move(pair);
    ids.resize(qp->sq.wqebb_count);
    sq.emplace(qp->sq, ids);
    cq.emplace(owned_cq->geometry);
    return Done{};
  }
  chooser::BenchContext context() noexcept {
    return {.sq = *sq,
            .cq = *cq,
            .memory = region->region(),
            .keys = {keys.all.data(), keys.count},
            .limits = device.caps().umr_limits(),
            .max_sge = device.caps().max_sge,
            .progress = [](void* d) { static_cast<device::Device*>(d)->progress(); },
            .arg = &device};
  }

  device::Device& device;
  std::optional<mem::Block> block;
  std::optional<mr::Mr> region;
  Keys keys;
  device::OwnedCq owned_cq;
  device::OwnedQp qp;
  std::vector<uint64_t> ids;
  std::optional<queue::Sq> sq;
  std::optional<queue::Cq> cq;
};

}  // namespace

Result<chooser::Chooser> calibrate_chooser(device::Device& device) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  Stage stage{device};
  if (Status s = stage.open(); !s) return s.error();
  chooser::ChooserBench bench{stage.context()};
  chooser::ChooserLimits limits = bench.limits();
  const chooser::ChooserCosts costs =
      chooser::calibrate(limits, chooser::ChooserBench::trial, &bench);
  return chooser::Chooser{limits, costs};
}

}  // namespace kilim::inline v1::port
