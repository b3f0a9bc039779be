// SPDX-License-Identifier: BSD-3-Clause
// For tests of unreliable services on a wire: memory on both sides, and requests that move it.
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "ut.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {

struct UnreliableSides {
  Pages near{area}, far{area};
  MrKeys near_key, far_key;
  explicit UnreliableSides(WireRig& w)
      : near_key(w.left.reg(near, rw_access)), far_key(w.right.reg(far, rw_access)) {
    for (std::size_t i = 0; i < area; i++)
      near.data()[i] = static_cast<std::byte>(i * 7 + (i >> 8));
  }
  [[nodiscard]] bool same(std::size_t near_at, std::size_t far_at, std::size_t n) const {
    return std::memcmp(near.data() + near_at, far.data() + far_at, n) == 0;
  }
  [[nodiscard]] Wqe with(Wqe w, std::size_t at, uint32_t n) const {
    return n == 0 ? w : w.data(near.at(at), n, near_key.lkey.value());
  }
  [[nodiscard]] Wqe write(Opcode op, std::size_t at, uint32_t n) const {
    return with(Wqe(op, 5).raddr(far.at(at), far_key.rkey.value()), at, n);
  }
};

inline LinkShape connection(uint8_t mtu = 1, const std::string& wire = {}) {
  LinkShape s{.left_wire = wire, .mtu = mtu};
  s.queue = {.sq_wqebbs = 256, .rq_wqes = 256, .type = QpType::uc};
  return s;
}

// Of datagram_wire.cc.
std::span<const kilim::test::Case> datagram_cases();

}  // namespace kilim::vhca::test
