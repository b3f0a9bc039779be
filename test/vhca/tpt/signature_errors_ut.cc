// SPDX-License-Identifier: BSD-3-Clause
// Wrong blocks of many signed keys in one transfer: what is told of, and what waits.
#include <array>
#include <memory>

#include "sign_fixture.hh"
#include "ut.hh"
#include "vhca/tpt/signature.hh"

namespace kilim::vhca::test {
namespace signature_errors_ut {
namespace {

using prm::Opcode;
using prm::Syndrome;

constexpr std::size_t keys = tpt::SignErrors::most + 1;

// There is room for one less than there are: its key stays armed.
void errors_without_room_are_told_of_later() {
  Rig rig;
  const Layout crc{.mem = {.sign = Sign::crc32, .block = 512}, .check = bsf::guard_bytes};
  std::array<std::unique_ptr<End>, keys> ends;
  for (std::unique_ptr<End>& e : ends) {
    e = std::make_unique<End>(rig, rig.a, rig.cq_a);
    const prm::Klm k = klm(e->arena.at(0), 516, e->pieces);
    EQUAL(e->configure(crc, {&k, 1}, 516), Syndrome::none);
    std::memset(e->arena.data(), 3, 516);
  }
  End& first = *ends[0];
  Wqe all(Opcode::rdma_write);
  all.raddr(first.buffer.at(0), first.plain);
  for (const std::unique_ptr<End>& e : ends) all.data(0, 512, e->key);
  EQUAL(first.post(all), Syndrome::none);
  EQUAL_FATAL(first.errors.size(), keys - 1);
  for (std::size_t i = 0; i + 1 < keys; i++) EQUAL(first.errors[i].mkey.host(), ends[i]->key);
  EQUAL(first.post(all), Syndrome::none);
  EQUAL_FATAL(first.errors.size(), keys);
  EQUAL(first.errors.back().mkey.host(), ends.back()->key);
}

const kilim::test::Case cases[] = {
    {"errors without room are told of later", errors_without_room_are_told_of_later},
};

}  // namespace
}  // namespace signature_errors_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(signature_errors, kilim::vhca::test::signature_errors_ut::cases)
