// SPDX-License-Identifier: BSD-3-Clause
// What the soak with a shadow does alone: windows and regions that end somewhere else each time,
// which requests keep to or overstep. One that oversteps completes in error, a WRITE has changed
// what lies in front of the packet that oversteps, and both ends start their connection over.
#include <algorithm>
#include <span>
#include <vector>

#include "shadow_fixture.hh"

namespace kilim::test {
namespace {

namespace layout = shadow_layout;

// A refusal that is lost is not said again: the queue that refused is in error, and answers
// nothing.
bool ends_so(ibv_wc_status wanted, ibv_wc_status status, ibv_qp* far) {
  if (status == wanted) return true;
  return wanted != IBV_WC_SUCCESS && status == IBV_WC_RETRY_EXC_ERR && state_of(far) == IBV_QPS_ERR;
}

// A WRITE at memory that ends behind `allowed` bytes has landed in whole packets of 1,024.
uint32_t lands(uint32_t allowed) {
  constexpr uint32_t mtu = 1024;
  return allowed / mtu * mtu;
}

std::vector<ShadowRange> first_of(std::span<const ShadowRange> ranges, uint32_t bytes) {
  std::vector<ShadowRange> first;
  for (const ShadowRange& r : ranges) {
    const uint32_t n = std::min(r.bytes, bytes);
    if (n != 0) first.push_back({r.at, n});
    bytes -= n;
  }
  return first;
}

}  // namespace

// The near end's one request, which must end so; behind an error both start over.
bool Shadow::ends_as(Zones z, ibv_wc_status wanted) {
  z.near->expected = 0;
  ibv_wc wc{};
  if (!wait(*z.near, wc)) return false;
  if (!ends_so(wanted, wc.status, z.far->qp))
    return complain("a request ends otherwise", wc.status);
  if (wanted == IBV_WC_SUCCESS) return true;
  counts.overstepped++;
  counts.unanswered += wc.status != wanted;
  return recover();
}

// A WRITE of as many bytes of the near zone, of which the first `allowed` ones lie in the far end's
// memory.
bool Shadow::write_at(Zones z, ShadowRange to, uint32_t rkey, uint32_t allowed) {
  const bool inside = allowed == to.bytes;
  const ShadowRange from{z.near_at, to.bytes};
  const uint32_t n = inside ? to.bytes : lands(allowed);
  put(*z.far, {{to.at, n}}, take(*z.near, {{z.near_at, n}}));
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {z.far->address(to.at), rkey};
  Sges list{z.near->sge(from)};
  z.near->post(wr, list);
  return ends_as(z, inside ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
}

// A list of the far end's, to which the near one writes, or which it reads; now and then a byte
// more than it shows.
bool Shadow::through_remote_key(Zones z) {
  const std::vector<ShadowRange> shown = pieces(z.far_at, 8);
  post_list(*z.far, shown);
  if (!settle()) return false;
  uint32_t bytes = 0;
  for (const ShadowRange& r : shown) bytes += r.bytes;
  const bool inside = bytes == layout::zone || below(6) != 0, writes = below(2) == 0;
  const ShadowRange mine{z.near_at, bytes + (inside ? 0 : 1)};
  const uint32_t n = inside ? bytes : lands(bytes);
  if (writes) put(*z.far, first_of(shown, n), take(*z.near, {{z.near_at, n}}));
  if (inside && !writes) put(*z.near, {mine}, take(*z.far, shown));
  ibv_send_wr wr{};
  wr.opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
  wr.wr.rdma = {0, z.far->keys[0]->rkey};
  Sges list{z.near->sge(mine)};
  z.near->post(wr, list);
  return ends_as(z, inside ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
}

bool Shadow::recover() {
  // Both go to RESET before one sends again: frames of before find nobody.
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  for (const auto& e : ends_) EQUAL(ibv_modify_qp(e->qp, &reset, IBV_QP_STATE), 0);
  for (int i = 0; i < 50; i++) run();
  for (int i = 0; i < 2; i++)
    if (!ends_[i]->connect(*ends_[1 - i])) return complain("an end does not start over");
  counts.recoveries++;
  return true;
}

namespace {

// Inside, or one byte more on either side.
struct Target {
  ShadowRange to;
  uint32_t allowed;  // of its first bytes
  [[nodiscard]] bool inside() const { return allowed == to.bytes; }
};

Target choose(ShadowRange shown, uint64_t which) {
  switch (which) {
    case 0:
      return {{shown.at, shown.bytes + 1}, shown.bytes};
    case 1:
      return {{shown.at - 1, shown.bytes}, 0};
    default:
      return {{shown.at + shown.bytes / 4, shown.bytes / 2 + 1}, shown.bytes / 2 + 1};
  }
}

}  // namespace

// Ranges leave a byte of their zone on each side.
bool Shadow::bind_window(Zones z) {
  const ShadowRange shown{z.far_at + 1 + below(4000), static_cast<uint32_t>(4 + below(8000))};
  const uint32_t rkey = ibv_inc_rkey(z.far->window->rkey);
  ibv_send_wr bind{};
  bind.opcode = IBV_WR_BIND_MW;
  bind.bind_mw = {z.far->window,
                  rkey,
                  {z.far->pinned, z.far->address(shown.at), shown.bytes, IBV_ACCESS_REMOTE_WRITE}};
  z.far->post(bind, {});
  if (!settle()) return false;
  z.far->window->rkey = rkey;
  counts.windows++;
  const Target t = choose(shown, below(4));
  if (!write_at(z, t.to, rkey, t.allowed)) return false;
  if (!t.inside()) {  // a window does not outlive the state that its queue had
    EQUAL(ibv_dealloc_mw(z.far->window), 0);
    z.far->window = ibv_alloc_mw(z.far->pd, IBV_MW_TYPE_2);
    return z.far->window != nullptr || complain("no window");
  }
  ibv_send_wr shut{};
  shut.opcode = IBV_WR_LOCAL_INV;
  shut.invalidate_rkey = rkey;
  z.far->post(shut, {});
  return settle();
}

// Both ends have a region that moves over their memory; the far one is written to, the near one
// read.
bool Shadow::reregister(Zones z) {
  const ShadowRange shown{z.far_at + 1 + below(4000), static_cast<uint32_t>(4 + below(8000))};
  for (ShadowEnd* e : {z.near, z.far}) {
    const std::size_t at = e == z.far ? shown.at : z.near_at;
    const std::size_t bytes = e == z.far ? shown.bytes : layout::zone;
    EQUAL(
        ibv_rereg_mr(e->roving, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, e->memory + at, bytes, 0),
        0);
    counts.reregistered++;
  }
  const Target t = choose(shown, below(4));
  if (!write_at(z, t.to, z.far->roving->rkey, t.allowed)) return false;
  // By the near one's key.
  const ShadowRange from{z.near_at, shown.bytes}, to{z.far_at, shown.bytes};
  put(*z.far, {to}, take(*z.near, {from}));
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {z.far->address(to.at), z.far->region(to.at)->rkey};
  Sges list{{z.near->address(from.at), from.bytes, z.near->roving->lkey}};
  z.near->post(wr, list);
  return settle();
}

}  // namespace kilim::test
