// SPDX-License-Identifier: BSD-3-Clause
// Who gets short data in completion entries, who is refused, who is made without.
#include <cerrno>
#include <cstring>

#include "kilim/detail/device/inline_arbiter.hh"
#include "ut.hh"

namespace inline_arbiter_ut {
namespace {

using namespace kilim;
using namespace kilim::device;

void check(const InlineCase& c, uint32_t received, uint32_t answered, const char* word) {
  const Result<InlineDecision> d = arbitrate(c);
  CU_ASSERT_TRUE_FATAL(d.ok());
  EQUAL(d->received, received);
  EQUAL(d->answered, answered);
  CU_ASSERT_PTR_NOT_NULL(std::strstr(d->why, word));
}
void refused(const InlineCase& c, int code, const char* word) {
  const Result<InlineDecision> d = arbitrate(c);
  CU_ASSERT_FALSE_FATAL(d.ok());
  EQUAL(d.error().code, code);
  CU_ASSERT_PTR_NOT_NULL(std::strstr(d.error().what, word));
}

constexpr InlineReceive on = InlineReceive::on, off = InlineReceive::off;

void api_over_environment_over_default() {
  check({}, 32, 0, "default");
  check({.environment = "1"}, 32, 0, "default");
  check({.environment = "0"}, 0, 0, "MLX5_SCATTER_TO_CQE");
  check({.wish = on, .environment = "0"}, 32, 32, "asked");
  check({.wish = off}, 0, 0, "asked");
  check({.wish = off, .environment = "1"}, 0, 0, "asked");
}

void room_follows_the_entries() {
  check({.recv_cqe_bytes = 128}, 64, 0, "default");
  check({.wish = on, .send_cqe_bytes = 128}, 32, 64, "asked");
  check({.wish = on, .send_cqe_bytes = 128, .recv_cqe_bytes = 128}, 64, 64, "asked");
  check({.receives = false}, 0, 0, "");
}

void answers_need_entries() {
  check({.signal_all = true}, 32, 32, "default");
  check({.transport = Transport::uc, .signal_all = true}, 32, 0, "default");
  check({.transport = Transport::uc, .wish = on}, 32, 0, "asked");
}

void buffers_that_cannot_be_copied_to() {
  check({.memory = RecvMemory::zero_based}, 0, 0, "zero-based");
  check({.memory = RecvMemory::device, .signal_all = true}, 0, 0, "device memory");
  refused({.wish = on, .memory = RecvMemory::zero_based}, EINVAL, "zero-based");
  refused({.wish = on, .memory = RecvMemory::device}, EINVAL, "device memory");
  check({.wish = off, .memory = RecvMemory::device}, 0, 0, "asked");
}

void queues_and_adapters_without() {
  check({.transport = Transport::raw_packet}, 0, 0, "packet queue");
  refused({.transport = Transport::raw_packet, .wish = on}, EOPNOTSUPP, "packet queue");
  check({.capable = false}, 0, 0, "adapter");
  refused({.wish = on, .capable = false}, EOPNOTSUPP, "adapter");
}

void regions_tell_their_kind() {
  mr::Region r{.address = 0x10000, .length = 4096, .iova = 0x10000};
  EQUAL(recv_memory_of(r), RecvMemory::addressed);
  r.iova = 0;
  EQUAL(recv_memory_of(r), RecvMemory::zero_based);
}

const kilim::test::Case cases[] = {
    {"the queue's setting stands over the environment, that over the default",
     api_over_environment_over_default},
    {"entries of 64 bytes carry 32, of 128 carry 64", room_follows_the_entries},
    {"answers come in entries where each request has one", answers_need_entries},
    {"zero-based keys and device memory are refused, or made without",
     buffers_that_cannot_be_copied_to},
    {"packet queues and adapters without it are refused, or made without",
     queues_and_adapters_without},
    {"a region tells whether its addresses are its memory's", regions_tell_their_kind},
};

}  // namespace
}  // namespace inline_arbiter_ut

KILIM_TEST_SUITE(inline_arbiter, inline_arbiter_ut::cases)
