// SPDX-License-Identifier: BSD-3-Clause
// MODIFY_QP and QUERY_QP. What ib_uverbs and ib_core check is checked here; whether a transition is
// legal the adapter says. Adapter's lock held.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/ports.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/uverbs/path.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint8_t last_state = static_cast<uint8_t>(QpState::err);
// What fits into a queue pair's context: nobody checks before, the rest falls off.
constexpr uint8_t timer_bits = 0x1f, retry_bits = 0x7;
constexpr uint8_t last_rate = 22;
constexpr const char* has_no_queue =
    "the queue pair hashes over a table of receive queues and has no state of its own";

QpAttr attr_of(const ib_uverbs_modify_qp& c) {
  QpAttr a;
  a.state = static_cast<QpState>(c.qp_state);
  a.cur_state = static_cast<QpState>(c.cur_qp_state);
  a.path_mtu = c.path_mtu;
  a.qkey = c.qkey;
  a.rq_psn = c.rq_psn & 0xffffff;
  a.sq_psn = c.sq_psn & 0xffffff;
  a.dest_qpn = Qpn{c.dest_qp_num};
  a.access = c.qp_access_flags;
  a.pkey_index = c.pkey_index;
  a.port = c.port_num;
  a.max_rd_atomic = c.max_rd_atomic;
  a.max_dest_rd_atomic = c.max_dest_rd_atomic;
  a.min_rnr_timer = c.min_rnr_timer & timer_bits;
  a.timeout = c.timeout & timer_bits;
  a.retry_cnt = c.retry_cnt & retry_bits;
  a.rnr_retry = c.rnr_retry & retry_bits;
  a.en_sqd_async_notify = c.en_sqd_async_notify;
  a.path = path_of(c.dest);
  return a;
}

// IBV_RATE_*: 0 is the port's own; 1 was never given, and 600 Gb/s is the last that mlx5_ib knows.
bool is_rate(uint8_t rate) {
  constexpr uint8_t lowest = 2;
  return rate == 0 || (rate >= lowest && rate <= last_rate);
}

constexpr PathRefusals path_refusals{hca::VerbRefusal::modify_not_global,
                                     hca::VerbRefusal::modify_sgid,
                                     hca::VerbRefusal::modify_no_route};

// The port that the path leaves by must be the queue's own.
int check_path(Context& context, const QpObject& qp, const ib_uverbs_modify_qp& c, QpAttr& a) {
  hca::Hca& h = context.hca;
  const hca::Refused other_port{hca::VerbRefusal::modify_path_port, c.dest.port_num,
                                hca::port_count(h)};
  if (!hca::has_port(h, c.dest.port_num)) return hca::refuse_verb(h, -EINVAL, other_port);
  if ((c.attr_mask & qp_mask::state) != 0 && a.state == QpState::rtr) {
    Result<QpAttr> now = hca::query_qp(h, qp.qpn);
    if (!now || now->port != c.dest.port_num) return hca::refuse_verb(h, -EINVAL, other_port);
  } else if ((c.attr_mask & qp_mask::port) != 0 && c.dest.port_num != c.port_num) {
    return hca::refuse_verb(h, -EINVAL, other_port);
  }
  // Linux drivers/infiniband/core/verbs.c, _ib_modify_qp(): ib_resolve_eth_dmac() is for connected
  // queues, which those of dynamic connections are not: their path may lead nowhere.
  const bool dynamic = qp.type == QpType::dci || qp.type == QpType::dct;
  const int err = dynamic ? check_source(h, a.path) : resolve_path(h, a.path);
  if (err != 0) return refuse_path(h, err, a.path, path_refusals);
  if (is_rate(a.path.static_rate)) return 0;
  return hca::refuse_verb(h, -EINVAL,
                          {hca::VerbRefusal::modify_rate, a.path.static_rate, last_rate});
}

// ib_uverbs leaves out what the half of an XRC connection has no use for.
uint32_t mask_for(QpType type, uint32_t mask) {
  if (type == QpType::xrc_ini)
    return mask & ~(qp_mask::max_dest_rd_atomic | qp_mask::min_rnr_timer);
  if (type == QpType::xrc_tgt)
    return mask & ~(qp_mask::max_rd_atomic | qp_mask::retry_cnt | qp_mask::rnr_retry);
  return mask;
}

// Automatic path migration is not reported. On Ethernet ib_core knows no other path; that a queue
// pair is on the path that it has may be said.
int check_migration(hca::Hca& h, const ib_uverbs_modify_qp& c) {
  constexpr uint8_t migrated = 0;  // IB_MIG_MIGRATED
  if ((c.attr_mask & qp_mask::alt_path) != 0)
    return hca::refuse_verb(h, h.config.profile.lid == 0 ? -EINVAL : -EOPNOTSUPP,
                            {hca::VerbRefusal::modify_alt_path});
  const bool moves = (c.attr_mask & qp_mask::path_mig_state) != 0 && c.path_mig_state != migrated;
  return moves ? refusal::equal("path_mig_state", c.path_mig_state, migrated, EOPNOTSUPP) : 0;
}

// mlx5_ib asks for 2ERR_QP or 2RST_QP, which are taken for done; for all else of a dead card in
// vain.
WhenDead when_dead(const ib_uverbs_modify_qp& c) {
  const bool to_reset = c.qp_state == static_cast<uint8_t>(QpState::reset);
  const bool ends = to_reset || c.qp_state == static_cast<uint8_t>(QpState::err);
  return ends && (c.attr_mask & qp_mask::state) != 0 ? WhenDead::runs : WhenDead::refused;
}

int modify(Context& context, const ib_uverbs_modify_qp& c) {
  auto* qp = context.find<QpObject>(c.qp_handle);
  if (qp == nullptr) return refusal::absent("qp_handle", c.qp_handle);
  if (qp->hashes) return refusal::text(ENOSYS, has_no_queue);  // mlx5_ib_modify_qp()
  if (int err = context.refusal(when_dead(c)); err != 0) return err;
  constexpr uint32_t known = (1u << 21) - 1;  // up to IB_QP_DEST_QPN
  if ((c.attr_mask & ~known) != 0)
    return refusal::bits("attr_mask", c.attr_mask, known, EOPNOTSUPP);
  if ((c.attr_mask & qp_mask::state) != 0 && c.qp_state > last_state)
    return refusal::most("qp_state", c.qp_state, last_state);
  if ((c.attr_mask & qp_mask::cur_state) != 0 && c.cur_qp_state > last_state)
    return refusal::most("cur_qp_state", c.cur_qp_state, last_state);
  if ((c.attr_mask & qp_mask::port) != 0 && !hca::has_port(context.hca, c.port_num))
    return hca::refuse_verb(
        context.hca, -EINVAL,
        {hca::VerbRefusal::modify_port, c.port_num, hca::port_count(context.hca)});
  if (int err = check_migration(context.hca, c); err != 0) return err;
  QpAttr a = attr_of(c);
  if ((c.attr_mask & qp_mask::path) != 0) {
    if (int err = check_path(context, *qp, c, a); err != 0) return err;
  }
  return hca::modify_qp(context.hca, qp->qpn, a, mask_for(qp->type, c.attr_mask));
}

// A DC target gets its number, which the client needs to hear.
bool becomes_ready(const QpObject* qp, const ib_uverbs_modify_qp& c) {
  return qp != nullptr && qp->type == QpType::dct && (c.attr_mask & qp_mask::state) != 0 &&
         c.qp_state == static_cast<uint8_t>(QpState::rtr);
}

// Of a DC target mlx5_ib knows some attributes, and those only once it is ready to receive.
bool shows_target(const QpAttr& a, uint32_t mask) {
  constexpr uint32_t known = qp_mask::state | qp_mask::access | qp_mask::port |
                             qp_mask::min_rnr_timer | qp_mask::path | qp_mask::path_mtu |
                             qp_mask::pkey_index;
  return a.state == QpState::rtr && (mask & ~known) == 0;
}

// How many READs and atomics at a time: a queue pair's context keeps a logarithm, which says one at
// least. Raw packet queues have no such context.
uint8_t depth_shown(QpType type, uint8_t depth) {
  if (type == QpType::raw_packet) return 0;
  return std::bit_ceil(std::max(depth, uint8_t{1}));
}

// A card keeps the remote rights only, and mlx5_ib gives it none to READ or to change words while
// nothing can be answered.
uint32_t rights_shown(const QpAttr& a) {
  uint32_t shown = access::remote_write;
  if (a.max_dest_rd_atomic != 0) shown |= access::remote_read | access::remote_atomic;
  return a.access & shown;
}

// A datagram is one packet: mlx5_ib asks for the largest whatever the path.
uint8_t mtu_shown(QpType type, const QpAttr& a) {
  constexpr uint8_t mtu_4096 = 5;
  return type == QpType::ud && a.state != QpState::reset ? mtu_4096 : a.path_mtu;
}

}  // namespace

int cmd_modify_qp(Context& context, const Request& r) {
  ib_uverbs_modify_qp cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  // The answer has no place for a target's number.
  if (becomes_ready(context.find<QpObject>(cmd.qp_handle), cmd))
    return refusal::clash("qp_state of a DC target, whose number this older command cannot tell,",
                          cmd.qp_state, 0);
  return modify(context, cmd);
}

int cmd_modify_qp_ex(Context& context, const Request& r) {
  // The tail of the extended command is a rate limit, which no queue has here.
  ib_uverbs_modify_qp cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  if (int err = r.in.zero_from(sizeof cmd); err != 0) return err;
  if (int err = r.driver_in.zero_from(0); err != 0) return err;
  mlx5_ib_modify_qp_resp driver{};
  driver.response_length = sizeof driver;
  if (const auto* qp = context.find<QpObject>(cmd.qp_handle); becomes_ready(qp, cmd)) {
    if (r.driver_out.bytes() < offsetof(mlx5_ib_modify_qp_resp, ece_options))
      return refusal::bytes("mlx5_ib_modify_qp_resp", r.driver_out.bytes(),
                            offsetof(mlx5_ib_modify_qp_resp, ece_options));
    driver.dctn = qp->qpn.value();
  }
  if (int err = modify(context, cmd); err != 0) return err;
  if (int err = r.driver_out.write(driver); err != 0) return err;
  return r.out.write(ib_uverbs_ex_modify_qp_resp{0, sizeof(ib_uverbs_ex_modify_qp_resp)});
}

int cmd_query_qp(Context& context, const Request& r) {
  ib_uverbs_query_qp cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  const auto* qp = context.find<QpObject>(cmd.qp_handle);
  if (qp == nullptr) return refusal::absent("qp_handle", cmd.qp_handle);
  if (qp->hashes) return refusal::text(ENOSYS, has_no_queue);  // mlx5_ib_query_qp()
  Result<QpAttr> attr = hca::query_qp(context.hca, qp->qpn);
  if (!attr) return refusal::of(attr.error());
  QpAttr a = *attr;
  if (qp->type == QpType::dci) a.path = {};  // of whom it was connected to last
  if (qp->type == QpType::dct && !shows_target(a, cmd.attr_mask))
    return refusal::clash("attr_mask of a DC target", cmd.attr_mask,
                          static_cast<uint64_t>(a.state));
  ib_uverbs_query_qp_resp resp{};
  resp.dest = dest_of(a.path);
  // As mlx5_ib: the send side of a client's queue is the client library's to know.
  resp.max_recv_wr = qp->cap.max_recv_wr;
  resp.max_recv_sge = qp->cap.max_recv_sge;
  resp.qkey = a.qkey;
  resp.rq_psn = a.rq_psn;
  resp.sq_psn = a.sq_psn;
  resp.dest_qp_num = a.dest_qpn.value();
  resp.qp_access_flags = rights_shown(a);
  resp.pkey_index = a.pkey_index;
  resp.qp_state = static_cast<uint8_t>(a.state);
  resp.cur_qp_state = static_cast<uint8_t>(a.state);
  resp.path_mtu = mtu_shown(qp->type, a);
  resp.sq_draining = a.sq_draining;
  resp.max_rd_atomic = depth_shown(qp->type, a.max_rd_atomic);
  resp.max_dest_rd_atomic = depth_shown(qp->type, a.max_dest_rd_atomic);
  resp.min_rnr_timer = a.min_rnr_timer;
  // A card's context names its first port before it is told one.
  resp.port_num = a.port != 0 ? a.port : uint8_t{1};
  resp.timeout = a.timeout;
  resp.retry_cnt = a.retry_cnt;
  resp.rnr_retry = a.rnr_retry;
  resp.sq_sig_all = qp->sq_sig_all;
  return r.out.write(&resp, sizeof resp);
}

}  // namespace kilim::vhca::uverbs
