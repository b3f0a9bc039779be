// SPDX-License-Identifier: BSD-3-Clause
// Base values at run time; what they promise at compile time is in test/abi.
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/field.hh"
#include "kilim/detail/base/mmio.hh"
#include "kilim/detail/base/owner.hh"
#include "kilim/detail/base/result.hh"
#include "ut.hh"

namespace base_ut {
namespace {

using namespace kilim;

struct Words {
  be16 a;
  be32 b;
  be64 c;
};
using B74 = Field<&Words::b, 7, 4>;
using Call = Field<&Words::c, 63, 0>;
using Ctop = Field<&Words::c, 63, 60>;

void big_endian() {
  const be32 v{0x01020304};
  const uint8_t bytes[4] = {1, 2, 3, 4};
  EQUAL(std::memcmp(&v, bytes, 4), 0);
  EQUAL((be16{0xff00} & be16{0x0ff0}).host(), 0x0f00);
  be64 w{1};
  w |= be64{uint64_t{1} << 63};
  EQUAL(w.host(), 0x8000000000000001);
  EQUAL(be32::from_raw(v.raw()), v);
}

void fields() {
  Words w{be16{0}, be32{0xffffffff}, be64{0}};
  B74::set(w, 5);
  EQUAL(w.b.host(), 0xffffff5f);
  EQUAL(B74::get(w), 5);
  Ctop::set(w, 9);
  EQUAL(w.c.host(), 0x9000000000000000);
  Call::set(w, ~uint64_t{0});
  EQUAL(Ctop::get(w), 15);
}

// Runs `what` in a child; whether it was killed by abort().
template <typename What>
bool aborts(What what) {
  const pid_t child = fork();
  if (child == 0) {
    const int quiet = open("/dev/null", O_WRONLY);
    dup2(quiet, 2);
    what();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#ifdef NDEBUG
constexpr bool checked = false;
#else
constexpr bool checked = true;
#endif

void asserts_in_debug() {
  volatile unsigned wide = 16;
  EQUAL(aborts([&] { (void)B74::at(+wide); }), checked);
  Owner owner;
  owner.check();
  EQUAL(aborts([&] { std::thread{[&] { owner.check(); }}.join(); }), checked);
  owner.release();
  CU_ASSERT_FALSE(aborts([&] { std::thread{[&] { owner.check(); }}.join(); }));
}

Result<std::unique_ptr<int>> make(bool good) {
  if (!good) return Error{ENOENT, "nothing there", 0x13};
  return std::make_unique<int>(7);
}

void results() {
  auto good = make(true);
  CU_ASSERT_TRUE(good.ok());
  EQUAL(**good, 7);
  const std::unique_ptr<int> taken = *std::move(good);
  EQUAL(*taken, 7);
  auto bad = make(false);
  CU_ASSERT_FALSE(static_cast<bool>(bad));
  EQUAL(bad.error().code, ENOENT);
  EQUAL(bad.error().syndrome, 0x13);
}

void descriptors() {
  int raw = -1;
  {
    Fd a{open("/dev/null", O_RDONLY)};
    Fd b = std::move(a);
    CU_ASSERT_FALSE(static_cast<bool>(a));
    raw = b.get();
    CU_ASSERT_TRUE(fcntl(raw, F_GETFD) >= 0);
  }
  EQUAL(fcntl(raw, F_GETFD), -1);
  Fd kept{open("/dev/null", O_RDONLY)};
  raw = kept.release();
  kept.reset();
  EQUAL(close(raw), 0);
}

void counters_and_registers() {
  Counter c;
  c.add(3);
  c.add(4);
  const Counter copy = c;
  EQUAL(copy.read(), 7);
  be32 record{0};
  record_store(&record, be32{0x1234});
  EQUAL(record_load(&record).host(), 0x1234);
  alignas(8) std::byte reg[8];
  mmio_store(reg, be64{0x0102030405060708});
  EQUAL(reg[0], std::byte{1});
  EQUAL(reg[7], std::byte{8});
}

const kilim::test::Case cases[] = {
    {"big-endian values lie in memory as the wire wants", big_endian},
    {"a field changes its bits only", fields},
    {"asserts stop a debug build and only that", asserts_in_debug},
    {"a result holds a value or the reason", results},
    {"a descriptor closes itself once", descriptors},
    {"counters add, records and registers are stored whole", counters_and_registers},
};

}  // namespace
}  // namespace base_ut

KILIM_TEST_SUITE(base, base_ut::cases)
