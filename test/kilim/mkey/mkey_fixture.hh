// SPDX-License-Identifier: BSD-3-Clause
// A binder over an array, with a device of a few lines: it completes what was posted, in order,
// when the test says so. Test code, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kilim/detail/mkey/mkey_binder_burst.hh"
#include "ut.hh"

namespace kilim::test {

// What tests of a binder name.
using namespace mkey;
using namespace umr;

// Counts what it has given out.
class CountingKeys final : public mr::MkeySource {
 public:
  Status create_mkeys(const mr::MkeyRequest& r, std::span<mr::IndirectMkey> out) override {
    for (mr::IndirectMkey& k : out) k = {Lkey{++made << 8}, r.max_entries};
    return Done{};
  }
  void destroy_mkeys(std::span<const mr::IndirectMkey> keys) override {
    destroyed += static_cast<uint32_t>(keys.size());
  }
  uint32_t made = 0;
  uint32_t destroyed = 0;
};

struct BinderFixture {
  static constexpr uint32_t blocks = 512;
  alignas(64) std::array<std::byte, std::size_t{blocks} * 64> memory{};
  std::array<uint64_t, blocks> wr_ids{};
  be32 record{0};
  alignas(8) std::array<std::byte, 8> doorbell{};
  queue::Sq sq;
  CountingKeys source;
  std::unique_ptr<mkey::MkeyPool> pool;
  std::unique_ptr<mkey::Epochs> epochs;
  std::unique_ptr<mkey::MkeyBinder> binder;
  uint32_t done = 0;  // position until which the device has completed

  explicit BinderFixture(uint32_t keys, mkey::MkeyBinderConfig config = {},
                         uint32_t use_blocks = blocks, rte_rcu_qsbr* readers = nullptr,
                         uint32_t queues = 4)
      : sq({.buf = memory.data(),
            .wqebb_count = use_blocks,
            .record = &record,
            .doorbell = doorbell.data(),
            .qpn = Qpn{7}},
           wr_ids),
        pool(*std::move(mkey::MkeyPool::create(source, keys, 8))),
        epochs(*std::move(mkey::Epochs::create(readers, queues))),
        binder(*std::move(mkey::MkeyBinder::create(sq, *pool, *epochs, config))) {}

  [[nodiscard]] const prm::CtrlSeg& wqe(uint32_t position) const {
    const uint32_t slot = position & (sq.geometry().wqebb_count - 1);
    return *reinterpret_cast<const prm::CtrlSeg*>(&memory[std::size_t{slot} * 64]);
  }
  [[nodiscard]] uint32_t blocks_of(uint32_t position) const {
    return wqebbs_for(Octowords{prm::ctrl::ds::get(wqe(position))}).value();
  }
  [[nodiscard]] uint8_t fence_of(uint32_t position) const {
    return wqe(position).fm_ce_se & prm::ctrl::fence_mask;
  }
  // Where the posted WQEs begin.
  [[nodiscard]] std::vector<uint32_t> posted() const {
    std::vector<uint32_t> at;
    for (uint32_t p = done; p != sq.posted(); p += blocks_of(p)) at.push_back(p);
    return at;
  }
  // Completes everything: good CQEs for WQEs that ask for one. From the `failing`-th WQE on errors,
  // for all WQEs. Returns the wr ids of all CQEs.
  std::vector<uint64_t> complete(uint32_t failing = ~0u) {
    std::vector<uint64_t> ids;
    uint32_t n = 0;
    for (; done != sq.posted(); n++) {
      queue::Completion c;
      c.wqe_counter = static_cast<uint16_t>(done);
      const bool signalled = (wqe(done).fm_ce_se & prm::ctrl::cq_update) != 0;
      c.opcode = n < failing ? prm::CqeOpcode::req : prm::CqeOpcode::req_err;
      c.syndrome = n < failing    ? prm::Syndrome::none
                   : n == failing ? prm::Syndrome::mw_bind
                                  : prm::Syndrome::wr_flush;
      done += blocks_of(done);
      if (signalled || n >= failing) ids.push_back(binder->handle_completion(c));
    }
    return ids;
  }
  void recover() {
    binder->recover();
    sq.reset();
    done = 0;
  }
};

inline constexpr std::array<umr::Piece, 4> pieces{
    umr::Piece{0x1000, 10, Lkey{0x90100}}, umr::Piece{0x2000, 20, Lkey{0x90200}},
    umr::Piece{0x3000, 30, Lkey{0x90300}}, umr::Piece{0x4000, 40, Lkey{0x90400}}};

inline umr::View view(uint32_t n = 2) {
  return umr::View::of(std::span{pieces}.first(n));
}

// One key bound and complete.
inline mkey::Binding bound(BinderFixture& r) {
  mkey::Binding b = r.binder->claim();
  queue::WqeCursor c{r.sq};
  CU_ASSERT_TRUE_FATAL(bool{b});
  CU_ASSERT_TRUE_FATAL(r.binder->bind(c, b, {}, view()).ok());
  r.binder->commit(c);
  r.complete();
  CU_ASSERT_TRUE_FATAL(b.valid());
  return b;
}

// Of mkey_misuse.cc.
std::span<const kilim::test::Case> mkey_misuse_cases();

}  // namespace kilim::test
