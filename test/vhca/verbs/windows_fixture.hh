// SPDX-License-Identifier: BSD-3-Clause
// For tests of memory windows through libibverbs: a connection whose one side owns a region and
// binds windows on it, whose other side reaches memory through them. Test code, one thread.
#pragma once

#include "fabric_fixture.hh"

namespace kilim::test {

inline constexpr unsigned bindable = all_access | IBV_ACCESS_MW_BIND;

// Side 1 owns a region of 4096 bytes and windows on it; side 0 writes through them.
struct Windows : Loop {
  Windows() : from(pd[0], 4096), region(pd[1], 4096, bindable) {
    std::memset(from.data(), 0xab, 4096);
  }
  // Binds by a request on side 1: what it completes with.
  ibv_wc_status bind2(ibv_mw* mw, uint32_t rkey, std::size_t at, std::size_t bytes,
                      unsigned access = IBV_ACCESS_REMOTE_WRITE) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw = {mw, rkey, {region.mr(), region.at(at), bytes, access}};
    return on_side_1(wr);
  }
  ibv_wc_status bind1(ibv_mw* mw, std::size_t at, std::size_t bytes) {
    ibv_mw_bind b{};
    b.send_flags = IBV_SEND_SIGNALED;
    b.bind_info = {region.mr(), region.at(at), bytes, IBV_ACCESS_REMOTE_WRITE};
    return ibv_bind_mw(qp[1], mw, &b) == 0 ? wait_status(cq[1]) : IBV_WC_GENERAL_ERR;
  }
  ibv_wc_status invalidate(uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.invalidate_rkey = rkey;
    return on_side_1(wr);
  }
  ibv_wc_status write(std::size_t at, uint32_t bytes, uint32_t rkey) {
    if (post(IBV_WR_RDMA_WRITE, {from.sge(0, bytes)}, region.at(at), rkey) != 0)
      return IBV_WC_GENERAL_ERR;
    return status();
  }
  ibv_wc_status on_side_1(ibv_send_wr& wr) {
    ibv_send_wr* bad = nullptr;
    wr.send_flags = IBV_SEND_SIGNALED;
    return ibv_post_send(qp[1], &wr, &bad) == 0 ? wait_status(cq[1]) : IBV_WC_GENERAL_ERR;
  }
  Region from, region;
};

}  // namespace kilim::test
