// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_QP", "DESTROY_QP", "QUERY_QP"; handles on XRC targets. Adapter's lock held.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <vector>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/cqe.hh"
#include "vhca/core/refusal.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/scheduler.hh"
#include "vhca/memory/probe.hh"
#include "vhca/transport/roce_port.hh"

namespace kilim::vhca::hca {

namespace {

constexpr uint32_t qp_record_bytes = 8;  // receive and send index

// What a queue pair completes to and takes from. Null: nothing to object to.
const char* queue_objection(const Hca& h, const QpSpec& s) noexcept {
  bool sends = has_rings(s.type);
  bool receives = s.type != QpType::xrc_ini && s.type != QpType::xrc_tgt;
  if (sends && h.cqs.at(s.send_cq.value()) == nullptr) return "no such completion queue";
  if (sends && h.uars.at(s.uar_page) == nullptr) return "no such UAR page";
  if (s.type == QpType::xrc_tgt && h.xrcds.at(s.xrcd) == nullptr) return "no such XRC domain";
  if (!sends && s.sq_wqebbs != 0) return "a target has no send queue";
  if (s.type == QpType::dct && s.srqn == 0) return "a target without a shared receive queue";
  if (s.type == QpType::dci && s.rq_wqes != 0) return "an initiator receives nothing";
  if (receives && h.cqs.at(s.recv_cq.value()) == nullptr) return "no such completion queue";
  if ((!receives || s.srqn != 0) && s.rq_wqes != 0) return "a receive ring that nothing would use";
  const wq::Srq* srq = s.srqn != 0 ? h.srqs.at(s.srqn) : nullptr;
  if (s.srqn != 0 && (srq == nullptr || srq->spec.xrc)) return "no such shared receive queue";
  if (srq != nullptr && srq->tags && s.type != QpType::rc)
    return "tags are matched on reliable connections only";
  return nullptr;
}

// Null: nothing to object to.
const char* qp_objection(const Hca& h, const QpSpec& s) noexcept {
  const Profile& p = h.config.profile;
  if (s.type != QpType::xrc_tgt && !h.pd_exists(s.pd)) return "no such protection domain";
  if (const char* why = queue_objection(h, s)) return why;
  if (s.sq_wqebbs != 0 && !std::has_single_bit(s.sq_wqebbs)) return "send ring no power of two";
  if (s.rq_wqes != 0 && !std::has_single_bit(s.rq_wqes)) return "receive ring no power of two";
  if (s.sq_wqebbs > p.max_qp_wr || s.rq_wqes > p.max_qp_wr) return "a ring beyond the limit";
  if (s.rq_wqes != 0 &&
      (s.rq_wqe_shift < 4 || s.rq_wqe_shift > 31 || 1u << s.rq_wqe_shift > p.max_rq_desc_bytes))
    return "size of a receive WQE";
  if (s.record.value() % 4 != 0) return "doorbell record not aligned";
  if (s.failing_streams > wq::FailedStreams::most)
    return "more failing streams than the adapter keeps";
  return nullptr;
}

// Work queues and their records are only read (Linux drivers/infiniband/hw/mlx5/qp.c,
// _create_user_qp(): ib_umem_get() without access; doorbell.c, mlx5_ib_db_map_user()).
int probe_rings(const QpSpec& s, uint64_t sq_base, uint64_t rq_bytes) noexcept {
  if (int rc = memory::probe_range(s.buf, rq_bytes, false); rc != 0) return rc;
  if (int rc = memory::probe_range(Va{sq_base}, uint64_t{s.sq_wqebbs} * wqebb_bytes, false);
      rc != 0)
    return rc;
  if (!has_rings(s.type)) return 0;
  return memory::probe_range(s.record, qp_record_bytes, false);
}

void count_users(Hca& h, const wq::Qp& qp, uint32_t by) noexcept {
  if (qp.send_cq != nullptr) qp.send_cq->users += by;
  if (qp.type == QpType::xrc_tgt) {
    h.xrcds.at(qp.spec.xrcd)->users += by;
    return;
  }
  if (qp.recv_cq != nullptr) qp.recv_cq->users += by;
  if (qp.srq != nullptr) qp.srq->users += by;
  h.pds.at(qp.spec.pd.value())->users += by;
}

// The queue completes where its shared queue does: short data comes only as far as there is room in
// those entries, whatever its own completion queue's are like.
void use_tags(wq::Qp& qp) {
  qp.recv_cq = qp.srq->cq;
  qp.tags = std::make_unique<wq::TagWork>();
  const uint8_t room = qp.recv_cq->spec.cqe_bytes > sizeof(prm::Cqe) ? 64 : 32;
  qp.spec.scatter_received = std::min(qp.spec.scatter_received, room);
}

// Datagrams and frames name no key that their own queue changes.
void use_order(const HcaConfig& config, wq::Qp& qp) {
  const bool connected = qp.type != QpType::ud && qp.type != QpType::raw_packet;
  if (config.order.strict() || !connected || qp.sq.wqebbs == 0) return;
  qp.weak = std::make_unique<wq::WeakOrder>(config.order, config.seed << 24 ^ qp.qpn.value());
}

// Lists that the engine appends to without allocating.
void reserve_lists(Hca& h) {
  if (h.waiting.capacity() <= h.qps.count()) h.waiting.reserve(2 * h.qps.count() + 2);
}

uint8_t paged_operations(const Profile& p, QpType type) noexcept {
  switch (type) {
    case QpType::rc:
      return p.odp_rc;
    case QpType::ud:
      return p.odp_ud;
    case QpType::xrc_ini:
    case QpType::xrc_tgt:
      return p.odp_xrc;
    case QpType::dci:
    case QpType::dct:
      return p.odp_dc;
    default:
      return 0;
  }
}

// What follows from the spec alone.
void fill(const Hca& h, wq::Qp& qp, const QpSpec& s) {
  const bool receives = s.type != QpType::xrc_ini && s.type != QpType::xrc_tgt;
  qp.type = s.type;
  qp.paged = paged_operations(h.config.profile, s.type);
  qp.spec = s;
  qp.spec.max_message = uint64_t{1} << h.config.profile.log_max_msg;
  qp.send_cq = has_rings(s.type) ? h.cqs.at(s.send_cq.value()) : nullptr;
  qp.recv_cq = receives ? h.cqs.at(s.recv_cq.value()) : nullptr;
  qp.srq = s.srqn != 0 ? h.srqs.at(s.srqn) : nullptr;
  if (qp.srq != nullptr && qp.srq->tags) use_tags(qp);
  qp.sq.wqebbs = s.sq_wqebbs;
  use_order(h.config, qp);
}

// From here on its doorbells are looked at, and frames may find it.
void show_to_engine(Hca& h, wq::Qp& qp) {
  if (qp.spec.own_unicast || qp.spec.own_multicast) h.eth.own_queues++;
  if (!has_rings(qp.type)) return;
  Uar& uar = *h.uars.at(qp.spec.uar_page);
  uar.qps.add(qp);
  h.uars.note_queues(uar);
  if (h.lint) h.lint->add(qp);
}

// True: other handles are left, the queue pair stays.
bool close_handle(wq::Qp& qp, const void* owner) {
  if (qp.others.empty()) return false;
  if (qp.spec.owner != owner) {
    std::erase_if(qp.others, [=](const wq::QpHandle& other) { return other.owner == owner; });
    return true;
  }
  // The first one goes: another takes its place.
  qp.sink = qp.others.back().sink;
  qp.spec.owner = qp.others.back().owner;
  qp.others.pop_back();
  return true;
}

}  // namespace

Result<Qpn> create_qp(Hca& h, const QpSpec& s, EventSink* sink) {
  if (s.type == QpType::raw_packet && !h.config.profile.raw_packet)
    return Error{EOPNOTSUPP, "the adapter has no raw packet queues"};
  if (const char* why = qp_objection(h, s)) return Error{EINVAL, why};
  // Without receive WQEs their size says nothing, and may be any number.
  uint32_t rq_shift = s.rq_wqes != 0 ? s.rq_wqe_shift : 0;
  uint64_t rq_bytes = uint64_t{s.rq_wqes} << rq_shift;
  uint64_t sq_base = s.sq_buf.value() != 0 ? s.sq_buf.value() : s.buf.value() + rq_bytes;
  if (int rc = probe_rings(s, sq_base, rq_bytes); rc != 0)
    return Error{-rc, "the memory of the queue pair is not there"};
  uint32_t number = 0;
  wq::Qp* qp = h.qps.create(number);
  if (qp == nullptr) return Error{ENOMEM, "the adapter has no more queue pairs"};
  reserve_lists(h);
  qp->qpn = Qpn{number};
  qp->sink = sink;
  qp->sq.base = sq_base;
  qp->rq = {s.buf.value(), s.rq_wqes, rq_shift};
  fill(h, *qp, s);
  count_users(h, *qp, 1);
  show_to_engine(h, *qp);
  return qp->qpn;
}

Result<QpAttr> query_qp(const Hca& h, Qpn qpn) {
  const wq::Qp* qp = h.qps.at(qpn.value());
  if (qp == nullptr) return Error{EINVAL, "no such queue pair"};
  QpAttr attr = qp->attr;
  attr.state = attr.cur_state = qp->state;
  attr.sq_draining = qp->state == QpState::sqd && !qp->sq_drained ? 1 : 0;
  return attr;
}

int open_qp(Hca& h, Qpn qpn, uint32_t xrcd, const wq::QpHandle& handle) {
  wq::Qp* qp = h.qps.at(qpn.value());
  if (qp == nullptr || qp->type != QpType::xrc_tgt || qp->spec.xrcd != xrcd)
    return refusal::absent("qp_num", qpn.value());
  qp->others.push_back(handle);
  return 0;
}

int destroy_qp(Hca& h, Qpn qpn, const void* owner) {
  wq::Qp* qp = h.qps.at(qpn.value());
  if (qp == nullptr) return refusal::absent("qp_num", qpn.value());
  if (close_handle(*qp, owner)) return 0;
  if (qp->groups != 0) return refusal::busy("the queue pair", qp->groups);
  send_rung(h, *qp);
  if (qp->type == QpType::raw_packet) {
    if (int rc = ethernet::eth_detach_qp(h.eth, *qp); rc != 0) return rc;
    ethernet::eth_give_back(h.eth, *qp);
  }
  transport::roce_part(h.roce, *qp);
  forget_work(h, *qp);
  h.context.in_error.remove(*qp);
  if (has_rings(qp->type)) {
    Uar& uar = *h.uars.at(qp->spec.uar_page);
    uar.qps.remove(*qp);
    h.uars.note_queues(uar);
  }
  count_users(h, *qp, ~0u);
  if (qp->spec.own_unicast || qp->spec.own_multicast) h.eth.own_queues--;
  if (h.lint) h.lint->remove(*qp);
  h.qps.destroy(qpn.value());
  return 0;
}

}  // namespace kilim::vhca::hca
