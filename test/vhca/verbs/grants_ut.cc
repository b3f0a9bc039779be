// SPDX-License-Identifier: BSD-3-Clause
// Memory windows grant what the documents promise at the same time: different rights over different
// ranges of one region, and to different agents; and take it back.
#include <array>

#include "windows_fixture.hh"

namespace grants_ut {
namespace {

using namespace kilim::test;

constexpr unsigned read_right = IBV_ACCESS_REMOTE_READ, write_right = IBV_ACCESS_REMOTE_WRITE,
                   atomic_right = IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned all_rights[] = {read_right, write_right, atomic_right};

ibv_send_wr request_of(unsigned right, uint64_t at, uint32_t rkey, ibv_sge& own) {
  ibv_send_wr wr{};
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &own;
  wr.num_sge = 1;
  if (right == atomic_right) {
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic = {at, 1, 0, rkey};
  } else {
    wr.opcode = right == read_right ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {at, rkey};
  }
  return wr;
}

// Two agents, each with a connection to the owner of one region; the owner's ends share a
// protection domain.
struct Agents {
  Agents() : one(), two() {
    near = create_qp(one.pd[1], one.cq[1]);
    ibv_qp_attr reset{};
    ok = one.ok && two.ok && near != nullptr && connect(near, two.qp[0]->qp_num) == 0 &&
         ibv_modify_qp(two.qp[0], &reset, IBV_QP_STATE) == 0 &&
         connect(two.qp[0], near->qp_num) == 0;
  }
  ~Agents() {
    for (ibv_mw* mw : windows) ibv_dealloc_mw(mw);
    ibv_destroy_qp(near);
  }
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  [[nodiscard]] ibv_qp* owners_end(int agent) const { return agent == 0 ? one.qp[1] : near; }
  ibv_wc_status by_owner(int agent, ibv_send_wr& wr) {
    ibv_send_wr* bad = nullptr;
    wr.send_flags = IBV_SEND_SIGNALED;
    const int rc = ibv_post_send(owners_end(agent), &wr, &bad);
    return rc == 0 ? wait_status(one.cq[1]) : IBV_WC_GENERAL_ERR;
  }
  // Binds for this agent: the window's new key, 0 where that fails.
  uint32_t grant(int agent, ibv_mw* mw, uint32_t tag, std::size_t at, std::size_t bytes,
                 unsigned rights) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw = {mw, tag, {one.region.mr(), one.region.at(at), bytes, rights}};
    return by_owner(agent, wr) == IBV_WC_SUCCESS ? tag : 0;
  }
  uint32_t grant(int agent, std::size_t at, std::size_t bytes, unsigned rights) {
    ibv_mw* mw = ibv_alloc_mw(one.pd[1], IBV_MW_TYPE_2);
    windows.push_back(mw);
    return grant(agent, mw, ibv_inc_rkey(mw->rkey), at, bytes, rights);
  }
  bool revoke(int agent, uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.invalidate_rkey = rkey;
    return by_owner(agent, wr) == IBV_WC_SUCCESS;
  }
  // Whether the agent may; after a refusal its connection is at its end.
  bool may(int agent, unsigned right, std::size_t at, uint32_t rkey) {
    Windows& w = agent == 0 ? one : two;
    ibv_sge own = w.from.sge(0, 8);
    ibv_send_wr wr = request_of(right, one.region.at(at), rkey, own);
    ibv_send_wr* bad = nullptr;
    EQUAL_FATAL(ibv_post_send(w.qp[0], &wr, &bad), 0);
    const ibv_wc_status status = wait_status(w.cq[0]);
    CU_ASSERT(status == IBV_WC_SUCCESS || status == IBV_WC_REM_ACCESS_ERR);
    return status == IBV_WC_SUCCESS;
  }

  Windows one, two;
  ibv_qp* near = nullptr;
  std::vector<ibv_mw*> windows;
  bool ok = false;
};

struct Range {
  std::size_t at, bytes;
  unsigned rights;
};
// Side by side, one over others.
constexpr Range ranges[] = {
    {0, 64, read_right},
    {64, 128, write_right},
    {192, 64, read_right | atomic_right},
    {32, 192, write_right | atomic_right},
};

void rights_by_range() {
  for (std::size_t tried = 0; tried < std::size(ranges); tried++) {
    for (const unsigned right : all_rights) {
      Agents a;
      CU_ASSERT_TRUE_FATAL(a.ok);
      std::array<uint32_t, std::size(ranges)> keys{};
      for (std::size_t i = 0; i < keys.size(); i++)
        keys[i] = a.grant(0, ranges[i].at, ranges[i].bytes, ranges[i].rights);
      // What every window allows, in turn, twice.
      for (std::size_t i = 0; i < 2 * keys.size(); i++) {
        const Range& r = ranges[i % keys.size()];
        for (const unsigned allowed : all_rights)
          if ((r.rights & allowed) != 0)
            CU_ASSERT_TRUE_FATAL(a.may(0, allowed, r.at + r.bytes - 8, keys[i % keys.size()]));
      }
      const Range& r = ranges[tried];
      EQUAL(a.may(0, right, r.at, keys[tried]), (r.rights & right) != 0);
    }
  }
}

void each_range_ends_where_another_begins() {
  for (std::size_t i = 0; i < std::size(ranges); i++) {
    Agents a;
    CU_ASSERT_TRUE_FATAL(a.ok);
    std::array<uint32_t, std::size(ranges)> keys{};
    for (std::size_t k = 0; k < keys.size(); k++)
      keys[k] = a.grant(0, ranges[k].at, ranges[k].bytes, ranges[k].rights);
    const unsigned right = (ranges[i].rights & read_right) != 0 ? read_right : write_right;
    CU_ASSERT_TRUE(a.may(0, right, ranges[i].at + ranges[i].bytes - 8, keys[i]));
    CU_ASSERT_FALSE(a.may(0, right, ranges[i].at + ranges[i].bytes - 7, keys[i]));
  }
}

// Over the same bytes: one agent may read them, the other write and add.
void rights_by_agent() {
  constexpr unsigned given[] = {read_right, write_right | atomic_right};
  for (int agent = 0; agent < 2; agent++) {
    for (int key_of = 0; key_of < 2; key_of++) {
      for (const unsigned right : all_rights) {
        Agents a;
        CU_ASSERT_TRUE_FATAL(a.ok);
        const uint32_t keys[] = {a.grant(0, 0, 64, given[0]), a.grant(1, 0, 64, given[1])};
        CU_ASSERT_TRUE_FATAL(keys[0] != 0);
        CU_ASSERT_TRUE_FATAL(keys[1] != 0);
        CU_ASSERT_TRUE(a.may(0, read_right, 0, keys[0]));
        CU_ASSERT_TRUE(a.may(1, write_right, 0, keys[1]));
        EQUAL(a.may(agent, right, 8, keys[key_of]), agent == key_of && (given[agent] & right) != 0);
      }
    }
  }
}

// What was one agent's is the other's, with other rights; nothing of before is left.
void taken_back_and_granted_to_another() {
  for (int agent = 0; agent < 2; agent++) {
    for (const unsigned right : all_rights) {
      for (const bool old_key : {false, true}) {
        Agents a;
        CU_ASSERT_TRUE_FATAL(a.ok);
        const uint32_t before = a.grant(0, 0, 64, write_right | atomic_right);
        CU_ASSERT_TRUE_FATAL(a.may(0, write_right, 0, before));
        CU_ASSERT_TRUE_FATAL(a.revoke(0, before));
        const uint32_t after = a.grant(1, a.windows[0], ibv_inc_rkey(before), 0, 64, read_right);
        CU_ASSERT_TRUE_FATAL(after != 0);
        CU_ASSERT_TRUE_FATAL(a.may(1, read_right, 0, after));
        EQUAL(a.may(agent, right, 0, old_key ? before : after),
              agent == 1 && !old_key && right == read_right);
      }
    }
  }
}

constexpr Case cases[] = {
    {"windows over different ranges have different rights at the same time", rights_by_range},
    {"each of several windows ends where it was bound to", each_range_ends_where_another_begins},
    {"different agents have different rights over the same range", rights_by_agent},
    {"a window is taken back and granted to another agent", taken_back_and_granted_to_another},
};

}  // namespace
}  // namespace grants_ut

KILIM_TEST_SUITE(grants, grants_ut::cases)
