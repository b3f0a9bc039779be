// SPDX-License-Identifier: BSD-3-Clause
// What base values promise at compile time: values of different meaning do not mix, crossing the
// byte order is spelled. Building this file is passing.
#include <type_traits>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/field.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/prm/ctrl_seg.hh"

namespace kilim::inline v1 {

// No implicit crossing, either way.
static_assert(!std::is_convertible_v<uint32_t, be32> && !std::is_convertible_v<be32, uint32_t>);
static_assert(!std::is_assignable_v<be32&, uint32_t>);
template <typename A, typename B>
concept Adds = requires(A a, B b) {
  a + b;
};
template <typename A, typename B>
concept Ors = requires(A a, B b) {
  a | b;
};
static_assert(!Adds<be32, be32> && !Ors<be32, uint32_t> && Ors<be32, be32> && !Ors<be16, be32>);
static_assert(std::is_trivially_default_constructible_v<be64> &&
              std::is_trivially_copyable_v<be64>);
static_assert(be32{0x01020304}.raw() == 0x04030201 || std::endian::native == std::endian::big);
static_assert(be16{0x1234}.host() == 0x1234 && be64{1}.host() == 1);

// An lkey is not an rkey, octowords are not basic blocks.
template <typename A, typename B>
concept Compares = requires(A a, B b) {
  a == b;
};
static_assert(Compares<Lkey, Lkey> && !Compares<Lkey, Rkey> && !Compares<Qpn, Cqn>);
static_assert(!std::is_convertible_v<Octowords, Wqebbs> && !std::is_constructible_v<Lkey, Rkey>);
static_assert(!std::is_convertible_v<uint32_t, Lkey>);
static_assert(index_of(Lkey{0x1234ab}) == MkeyIndex{0x1234} && tag_of(Rkey{0x1234ab}) == 0xab);
static_assert(wqebbs_for(Octowords{4}).value() == 1 && wqebbs_for(Octowords{5}).value() == 2);
static_assert(octowords_for(Bytes{16}).value() == 1 && octowords_for(Bytes{17}).value() == 2);
static_assert(round_up(1, 64) == 64 && round_up(64, 64) == 64 && round_up(0, 64) == 0);

// A field belongs to its structure.
template <typename F, typename S>
concept Reads = requires(S s) {
  F::get(s);
};
struct Other {
  be32 opmod_idx_opcode;
};
static_assert(Reads<prm::ctrl::opcode, prm::CtrlSeg> && !Reads<prm::ctrl::opcode, Other>);
static_assert(prm::ctrl::wqe_index::at(0xabcd) == 0xabcd00 && prm::ctrl::opcode::at(0x25) == 0x25);
static_assert(prm::ctrl::wqe_index::of(0x01abcd25) == 0xabcd && prm::ctrl::ds::max == 63);
static_assert(Field<&Other::opmod_idx_opcode, 31, 0>::mask == 0xffffffff);

static_assert(std::is_trivially_copyable_v<Error>);

}  // namespace kilim::inline v1
