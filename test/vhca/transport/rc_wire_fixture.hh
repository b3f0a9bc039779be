// SPDX-License-Identifier: BSD-3-Clause
// For tests of RC on a wire: memory on both sides, and requests that move it.
#pragma once

#include <optional>
#include <span>

#include "ut.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {

// Registered memory on both sides, filled with different patterns.
struct Sides {
  Pages near{area}, far{area};
  MrKeys near_key, far_key;
  explicit Sides(WireRig& w)
      : near_key(w.left.reg(near, rw_access)), far_key(w.right.reg(far, rw_access)) {
    for (std::size_t i = 0; i < area; i++) {
      near.data()[i] = static_cast<std::byte>(i * 7 + (i >> 8));
      far.data()[i] = static_cast<std::byte>(i * 13 + (i >> 9) + 1);
    }
  }
  [[nodiscard]] bool same(std::size_t near_at, std::size_t far_at, std::size_t n) const {
    return std::memcmp(near.data() + near_at, far.data() + far_at, n) == 0;
  }
};

inline bool succeeded(const std::optional<Completion>& c) {
  return c.has_value() && c->syndrome == Syndrome::none && c->op == prm::CqeOpcode::req;
}

inline bool bad(const std::optional<Completion>& c, Syndrome s) {
  return c.has_value() && c->op == prm::CqeOpcode::req_err && c->syndrome == s;
}

// A segment of length 0 would mean 2 GiB: a message without bytes has none.
inline Wqe with_data(Wqe w, const Sides& s, std::size_t at, uint32_t bytes) {
  return bytes == 0 ? w : w.data(s.near.at(at), bytes, s.near_key.lkey.value());
}

inline Wqe rdma(Opcode op, const Sides& s, std::size_t at, uint32_t bytes, uint32_t imm = 0) {
  return with_data(Wqe(op, imm).raddr(s.far.at(at), s.far_key.rkey.value()), s, at, bytes);
}

// Of rc_wire_errors.cc.
std::span<const kilim::test::Case> rc_wire_error_cases();

}  // namespace kilim::vhca::test
