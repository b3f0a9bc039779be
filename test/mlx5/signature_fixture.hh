// SPDX-License-Identifier: BSD-3-Clause
// For tests of signed keys: a device, a key that can be signed, and rules as the reference knows
// them.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/umr/signature.hh"
#include "mlx5_fixture.hh"
#include "sign_reference.hh"
#include "ut.hh"

namespace kilim::test {

namespace ref = blocks;
using umr::SignBlock;
using umr::SignDomain;
using umr::SignError;
using umr::SignKind;
using umr::SignRule;

inline uint32_t bytes_of(SignBlock b) {
  switch (b) {
    case SignBlock::bytes_512:
      return 512;
    case SignBlock::bytes_520:
      return 520;
    case SignBlock::bytes_4048:
      return 4048;
    case SignBlock::bytes_4096:
      return 4096;
    case SignBlock::bytes_4160:
      break;
  }
  return 4160;
}

inline ref::Domain plain(const SignDomain& d) {
  if (d.kind == SignKind::none) return {};
  return {
      static_cast<ref::Sign>(d.kind), bytes_of(d.block), d.ones, d.count_ref, d.app_tag, d.ref_tag};
}

class Rig {
 public:
  static constexpr std::size_t arena_bytes = 1 << 18, flat_bytes = 1 << 16;

  Rig() : memory_(arena_bytes + flat_bytes + 4096) {
    if (device_.device == nullptr) return;
    const std::span<std::byte> all{arena(), arena_bytes + flat_bytes};
    Result<mr::Mr> mr = mr::Mr::create(device_.device->registrar(), all, mr::Access::all, 4096);
    if (!mr) return;
    mr_.emplace(*std::move(mr));
    std::array<mr::IndirectMkey, 1> made;
    if (!device_.device->keys().create_mkeys({.max_entries = 16, .sign = true}, made)) return;
    key = made[0];
    signs = umr::SignedKey::of(key);
    loop_.emplace(*device_.device, mr::Access::all);
  }
  ~Rig() {
    if (ok()) device_.device->keys().destroy_mkeys({&key, 1});
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  [[nodiscard]] bool ok() const { return loop_ && loop_->ok(); }
  std::byte* arena() {
    auto at = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (4096 - at % 4096) % 4096;
  }
  std::byte* flat() { return arena() + arena_bytes; }
  [[nodiscard]] Lkey lkey() const { return mr_->region().lkey; }
  [[nodiscard]] Rkey rkey() const { return mr_->region().rkey; }

  // Posts what was appended and waits for it; wrong signatures are put aside.
  bool run(queue::WqeCursor& c, const SignRule& rule = {}) {
    c.signal_last();
    c.commit();
    for (int turn = 0; turn < 20000; turn++) {
      const prm::Cqe* e = loop_->send_cq->peek(0);
      if (e == nullptr) {
        device_.device->progress();
        continue;
      }
      const bool wrong = prm::cqe::opcode_of(e->op_own) == prm::CqeOpcode::sig_err;
      if (wrong) errors.push_back(umr::sign_error(*e, rule));
      queue::Completion done[1];
      if (loop_->send_cq->poll(done) != 1) return false;
      if (!wrong) {
        (void)loop_->sq->retire(done[0].wqe_counter);
        return done[0].ok();
      }
      last = done[0];
      signs.note_error();
    }
    return false;
  }
  bool show(const std::vector<umr::Piece>& pieces, const SignRule& rule) {
    queue::WqeCursor c{*loop_->sq};
    const umr::ListRequest r = request();
    return umr_signed(c, r, umr::View::of(pieces), {rule, signs}, {}).ok() && run(c);
  }
  bool show_unsigned(const std::vector<umr::Piece>& pieces) {
    queue::WqeCursor c{*loop_->sq};
    umr::ListRequest r = request();
    r.unsign = true;
    return umr_list(c, r, umr::View::of(pieces), {}).ok() && run(c);
  }
  bool write_out(uint32_t bytes, const SignRule& rule) {
    queue::WqeCursor c{*loop_->sq};
    return queue::rdma_write(c, {reinterpret_cast<uint64_t>(flat()), rkey()}, {0, bytes, key.lkey},
                             {}) &&
           run(c, rule);
  }
  bool read_in(uint32_t bytes, const SignRule& rule) {
    queue::WqeCursor c{*loop_->sq};
    return queue::rdma_read(c, {reinterpret_cast<uint64_t>(flat()), rkey()}, {0, bytes, key.lkey},
                            {}) &&
           run(c, rule);
  }

  mr::IndirectMkey key;
  umr::SignedKey signs;
  std::vector<SignError> errors;
  queue::Completion last;

 private:
  umr::ListRequest request() const {
    return {.key = key.lkey,
            .max_entries = key.max_entries,
            .new_tag = tag_of(key.lkey),
            .access = umr::mkey_access(mr::Access::all)};
  }
  VirtualDevice device_{config("sign" + std::to_string(++count_))};
  std::vector<std::byte> memory_;
  std::optional<mr::Mr> mr_;
  std::optional<Loop> loop_;
  static inline unsigned count_ = 0;
};

}  // namespace kilim::test
