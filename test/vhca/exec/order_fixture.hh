// SPDX-License-Identifier: BSD-3-Clause
// A queue whose requests are put into one doorbell, in any order of the adapter, its peer on the
// same adapter or behind a wire; an indirect key that shows one of two halves of its memory. Owner:
// one test case.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ut.hh"
#include "vhca/tpt/mkey.hh"
#include "vhca_fixture.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {

inline constexpr uint32_t half_bytes = 4096;

// Where the peer is.
enum class Way : uint8_t { loopback, wire };

class OrderRig {
 public:
  OrderRig(const Order& order, Way way) : memory_(2 * half_bytes), far_(2 * half_bytes) {
    if (way == Way::loopback) {
      RigShape shape;
      shape.order = order;
      shape.lint = lint::LintMode::off;  // what is unfenced here is meant
      alone_ = std::make_unique<Rig>(shape);
    } else {
      LinkShape shape;
      shape.order = order;
      shape.lint = lint::LintMode::off;
      pair_ = std::make_unique<WireRig>(shape);
    }
    lkey = rig().reg(memory_, rw_access).lkey.value();
    rkey = (alone_ ? *alone_ : pair_->right).reg(far_, rw_access).rkey.value();
    for (uint32_t i = 0; i < half_bytes; i++) {
      memory_.data()[i] = std::byte{'a'};
      memory_.data()[half_bytes + i] = std::byte{'b'};
      far_.data()[i] = std::byte{'f'};
      far_.data()[half_bytes + i] = std::byte{'-'};
    }
    key = rig().make_key(4);
    put(bind('a'));
    (void)run();
  }

  Rig& rig() noexcept { return alone_ ? *alone_ : pair_->left; }
  Rig& peer() noexcept { return alone_ ? *alone_ : pair_->right; }
  TestQp& peer_qp() noexcept { return alone_ ? alone_->b : pair_->right.a; }
  TestCq& peer_cq() noexcept { return alone_ ? alone_->cq_b : pair_->right.cq_a; }

  // The key shows half 'a' or half 'b' of the queue's memory.
  Wqe bind(char which) {
    const prm::Klm piece = klm(memory_.at(which == 'a' ? 0 : half_bytes), half_bytes, lkey);
    return umr_wqe(key, {.len = half_bytes}, {&piece, 1});
  }
  Wqe write(uint32_t bytes = 64) {
    return Wqe(Opcode::rdma_write).raddr(far_.at(half_bytes), rkey).data(0, bytes, key);
  }
  Wqe read(uint32_t bytes = 64) {
    return Wqe(Opcode::rdma_read).raddr(far_.at(0), rkey).data(0, bytes, key);
  }
  Wqe add(uint64_t n) {
    return Wqe(Opcode::atomic_fa).raddr(far_.at(0), rkey).atomic(n, 0).data(0, 8, key);
  }

  void put(Wqe w, uint8_t mode = 0) {
    w.flags = static_cast<uint8_t>(w.flags | mode << 5);
    rig().a.put(w);
  }
  // One doorbell for all; the completions in their order.
  std::vector<Completion> run() {
    rig().a.ring(rig().uar);
    return settle();
  }
  std::vector<Completion> settle() {
    if (alone_)
      alone_->run();
    else
      pair_->settle();
    std::vector<Completion> all;
    while (const std::optional<Completion> c = rig().cq_a.poll()) all.push_back(*c);
    return all;
  }

  [[nodiscard]] char mine(uint32_t at) const noexcept { return letter(memory_, at); }
  [[nodiscard]] char sent() const noexcept { return letter(far_, half_bytes); }
  [[nodiscard]] uint64_t far_word() const noexcept {
    uint64_t v;
    std::memcpy(&v, far_.data(), sizeof(v));
    return v;
  }
  Pages& far() noexcept { return far_; }
  Pages& memory() noexcept { return memory_; }

  uint32_t lkey = 0, rkey = 0, key = 0;

 private:
  static char letter(const Pages& p, uint32_t at) noexcept {
    return static_cast<char>(p.data()[at]);
  }
  Pages memory_, far_;
  std::unique_ptr<Rig> alone_;
  std::unique_ptr<WireRig> pair_;
};

using prm::CqeOpcode;
inline constexpr std::array ways = {Way::loopback, Way::wire};

// Of order_random.cc.
std::span<const kilim::test::Case> order_random_cases();
// Of posted_nops.cc.
std::span<const kilim::test::Case> posted_nops_cases();

}  // namespace kilim::vhca::test
