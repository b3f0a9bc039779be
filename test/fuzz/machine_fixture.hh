// SPDX-License-Identifier: BSD-3-Clause
// A client of the adapter that any bytes can drive: two queue pairs, a few regions and keys. In its
// work requests a word 0xfade00NN stands for key NN and 0xfadfNN00 with an offset behind it for an
// address in region NN (0xfae0000N: queue N), so that an input means the same in each run. Owner:
// one input.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "input_fixture.hh"
#include "vhca_fixture.hh"

namespace kilim::fuzz {

using vhca::test::Pages;
using vhca::test::Rig;
using vhca::test::RigShape;
using vhca::test::TestQp;

inline constexpr uint32_t key_token = 0xfade0000;    // | number of the key
inline constexpr uint32_t queue_token = 0xfae00000;  // | queue: its number, extended address
inline constexpr uint64_t address_token(uint8_t region, uint32_t offset) noexcept {
  return uint64_t{0xfadf0000u | uint32_t{region} << 8} << 32 | offset;
}

enum class Step : uint8_t {
  post,    // queue | raw control segment, octowords, the WQE
  ring,    // queue
  recv,    // queue, bytes of a receive WQE
  run,     // budget
  poll,    // how many
  time,    // milliseconds
  modify,  // queue, what to become
  odd,     // what, with what: see Machine::odd()
  more,    // the harness's own
};
inline constexpr uint8_t steps = 9;

class Machine {
 public:
  explicit Machine(const RigShape& shape);
  ~Machine();

  // Both queues up, connected with each other inside the adapter.
  void bring_up();
  void step(Step s, Input& in);
  // Ends what is under way: at last every queue is in error and the engine has nothing to do.
  void finish();
  // Puts keys and addresses in the place of their tokens.
  void resolve(std::span<std::byte> bytes) const;
  [[nodiscard]] TestQp& queue(unsigned n) noexcept { return n % 2 == 0 ? rig.a : rig.b; }

  Rig rig;
  std::array<Pages, 2> regions;
  std::vector<uint32_t> keys;

 private:
  void make_keys();
  void make_signed_key();
  void post(Input& in);
  void receive(Input& in);
  void modify(Input& in);
  void odd(Input& in);
  void bring_up(TestQp& qp, Qpn peer);
  void bring_up_dynamic(TestQp& qp);
};

// The steps of a seed.
Script& post(Script& s, unsigned queue, const vhca::test::Wqe& wqe);
Script& receive(Script& s, unsigned queue, uint64_t address, uint32_t bytes, uint32_t key);
Script& step(Script& s, Step step, uint8_t argument);

}  // namespace kilim::fuzz
