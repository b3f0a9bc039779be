// SPDX-License-Identifier: BSD-3-Clause
// doc/guides/errors.md: each of its mistakes is made through unmodified libibverbs and libmlx5, and
// the device says what the page shows, but for the numbers.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <time.h>

#include "../verbs/fabric_fixture.hh"
#include "explain_fixture.hh"
#include "guide_fixture.hh"
#include "ut.hh"

namespace errors_guide_ut {
namespace {

using namespace kilim::test;
using kilim::vhca::test::read_guide;
using kilim::vhca::test::says;
using kilim::vhca::test::stderr_of;
using kilim::vhca::test::without_numbers;

// What stands between the first fences behind the heading "## N. ".
std::string sentence_of(const std::string& guide, int number) {
  const std::size_t heading = guide.find("\n## " + std::to_string(number) + ". ");
  CU_ASSERT_FATAL(heading != std::string::npos);
  const std::size_t open = guide.find("\n```\n", heading) + 5;
  return guide.substr(open, guide.find("\n```", open) - open);
}

// Until it comes, or two seconds are over: a peer that is silent takes its time.
ibv_wc_status finish(Loop& l) {
  ibv_wc wc{};
  for (int i = 0; i < 200; i++) {
    if (wait_for(l.cq[0], wc)) return wc.status;
    constexpr timespec pause{0, 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return IBV_WC_GENERAL_ERR;
}

// Two queues, with memory on either side.
struct Two : Loop {
  explicit Two(unsigned rights = all_access, unsigned queue_rights = all_access)
      : Loop({}, queue_rights), mine(pd[0], 4096), theirs(pd[1], 4096, rights) {
    CU_ASSERT_FATAL(ok);
  }
  ibv_wc_status write(ibv_sge from, uint32_t rkey) {
    EQUAL(post(IBV_WR_RDMA_WRITE, {from}, theirs.at(), rkey), 0);
    return finish(*this);
  }
  ibv_wc_status send() {
    EQUAL(post(IBV_WR_SEND, {mine.sge(0, 512)}), 0);
    return finish(*this);
  }
  Region mine, theirs;
};

ibv_wc_status region_is_gone() {
  Two t;
  const ibv_sge from = t.mine.sge(0, 64);
  t.mine.release();
  return t.write(from, t.theirs.mr()->rkey);
}
ibv_wc_status more_than_the_region() {
  Two t;
  return t.write(t.mine.sge(0, 5000), t.theirs.mr()->rkey);
}
ibv_wc_status other_byte_order() {
  Two t;
  return t.write(t.mine.sge(0, 64), __builtin_bswap32(t.theirs.mr()->rkey));
}
ibv_wc_status region_lacks_a_right() {
  Two t(IBV_ACCESS_LOCAL_WRITE);
  return t.write(t.mine.sge(0, 64), t.theirs.mr()->rkey);
}
ibv_wc_status queue_lacks_a_right() {
  Two t(all_access, IBV_ACCESS_REMOTE_WRITE);
  EQUAL(t.post(IBV_WR_RDMA_READ, {t.mine.sge(0, 64)}, t.theirs.at(), t.theirs.mr()->rkey), 0);
  return finish(t);
}
ibv_wc_status two_domains() {
  Two t;
  return t.write(t.theirs.sge(0, 64), t.theirs.mr()->rkey);
}
ibv_wc_status no_receive() {
  Two t;
  return t.send();
}
ibv_wc_status short_receive() {
  Two t;
  EQUAL(t.post_recv(1, {t.theirs.sge(0, 256)}), 0);
  return t.send();
}
ibv_wc_status silent_peer() {
  Two t;
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RESET;
  EQUAL(ibv_modify_qp(t.qp[1], &a, IBV_QP_STATE), 0);
  return t.write(t.mine.sge(0, 64), t.theirs.mr()->rkey);
}
ibv_wc_status forgotten_attribute() {
  Two t;
  ibv_qp* fresh = create_qp(t.pd[0], t.cq[0]);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  EQUAL(ibv_modify_qp(fresh, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), EINVAL);
  ibv_destroy_qp(fresh);
  return IBV_WC_SUCCESS;
}

constexpr struct {
  ibv_wc_status (*make)();
  ibv_wc_status status;
} mistakes[] = {
    {region_is_gone, IBV_WC_LOC_PROT_ERR},         {more_than_the_region, IBV_WC_LOC_PROT_ERR},
    {other_byte_order, IBV_WC_REM_ACCESS_ERR},     {region_lacks_a_right, IBV_WC_REM_ACCESS_ERR},
    {queue_lacks_a_right, IBV_WC_REM_INV_REQ_ERR}, {two_domains, IBV_WC_LOC_PROT_ERR},
    {no_receive, IBV_WC_RNR_RETRY_EXC_ERR},        {short_receive, IBV_WC_REM_INV_REQ_ERR},
    {silent_peer, IBV_WC_RETRY_EXC_ERR},           {forgotten_attribute, IBV_WC_SUCCESS},
};

void each_mistake_is_told_as_the_guide_shows() {
  ::setenv("KILIM_VHCA_EXPLAIN", "on", 1);
  const std::string guide = read_guide();
  shared();
  int number = 0;
  for (const auto& mistake : mistakes) {
    number++;
    ibv_wc_status status = IBV_WC_GENERAL_ERR;
    const std::string text = stderr_of([&] { status = mistake.make(); });
    EQUAL(status, mistake.status);
    says(without_numbers(text), without_numbers(sentence_of(guide, number)));
  }
  EQUAL(guide.find("\n## " + std::to_string(number + 1) + ". "), std::string::npos);
}

using kilim::test::Case;
const Case cases[] = {
    {"each mistake is told as the guide shows", each_mistake_is_told_as_the_guide_shows},
};

}  // namespace
}  // namespace errors_guide_ut

KILIM_TEST_SUITE(errors_guide, errors_guide_ut::cases)
