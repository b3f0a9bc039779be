// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_CQ", "CREATE_QP", "CREATE_MKEY" of pinned memory. Adapter's lock held.
#include "vhca/hca/objects.hh"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "kilim/base/be.hh"
#include "kilim/base/units.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/doorbell.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/hca/scheduler.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/probe.hh"
#include "vhca/transport/roce_port.hh"
#include "vhca/wq/cqe_writer.hh"

namespace kilim::vhca {

namespace {

constexpr uint64_t page_mask = 4095;
constexpr uint32_t record_bytes = 8;
constexpr uint32_t known_access = access::local_write | access::remote_write | access::remote_read |
                                  access::remote_atomic | access::mw_bind | access::zero_based |
                                  access::on_demand | access::huge_pages | access::optional_mask;

// On demand, of the whole address space.
bool is_implicit(const MrSpec& s) noexcept {
  return (s.access & access::on_demand) != 0 && s.start.value() == 0 && s.length == UINT64_MAX;
}

// Null: nothing to object to.
const char* mr_objection(const HcaState& h, const MrSpec& s) noexcept {
  if (!h.pd_exists(s.pd)) return "no such protection domain";
  if ((s.access & access::on_demand) != 0 && !h.config.profile.odp)
    return "the adapter has no on-demand paging";
  if ((s.access & ~known_access) != 0) return "unknown access flag";
  if ((s.access & (access::remote_write | access::remote_atomic)) != 0 &&
      (s.access & access::local_write) == 0)
    return "remote write needs local write";
  if (s.length == 0) return "an empty region";
  if ((s.start.value() & page_mask) != (s.iova.value() & page_mask))
    return "address and virtual address differ within the page";
  if (s.iova.value() + s.length < s.iova.value()) return "the region wraps";
  bool implicit = is_implicit(s);
  if (implicit && (!h.config.profile.odp_implicit || s.iova.value() != 0))
    return "no region of the whole address space, or not at address 0";
  return nullptr;
}

// What a queue pair completes to and takes from. Null: nothing to object to.
const char* queue_objection(const HcaState& h, const QpSpec& s) noexcept {
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
  const Srq* srq = s.srqn != 0 ? h.srqs.at(s.srqn) : nullptr;
  if (s.srqn != 0 && (srq == nullptr || srq->spec.xrc)) return "no such shared receive queue";
  if (srq != nullptr && srq->tags && s.type != QpType::rc)
    return "tags are matched on reliable connections only";
  return nullptr;
}

// Null: nothing to object to.
const char* qp_objection(const HcaState& h, const QpSpec& s) noexcept {
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
  if (s.failing_streams > FailedStreams::most) return "more failing streams than the adapter keeps";
  return nullptr;
}

int probe_rings(const QpSpec& s, uint64_t sq_base, uint64_t rq_bytes) noexcept {
  if (int rc = probe_range(s.buf, rq_bytes, true); rc != 0) return rc;
  if (int rc = probe_range(Va{sq_base}, uint64_t{s.sq_wqebbs} * wqebb_bytes, true); rc != 0)
    return rc;
  if (!has_rings(s.type)) return 0;
  return probe_range(s.record, record_bytes, true);
}

void count_users(HcaState& h, const Qp& qp, uint32_t by) noexcept {
  if (qp.send_cq != nullptr) qp.send_cq->users += by;
  if (qp.type == QpType::xrc_tgt) {
    h.xrcds.at(qp.spec.xrcd)->users += by;
    return;
  }
  if (qp.recv_cq != nullptr) qp.recv_cq->users += by;
  if (qp.srq != nullptr) qp.srq->users += by;
  h.pds.at(qp.spec.pd.value())->users += by;
}

constexpr uint32_t mr_writes =
    access::local_write | access::remote_write | access::remote_atomic | access::mw_bind;

// The kernel pins for writing whatever could be written through the key.
int probe_mr(const MrSpec& s) noexcept {
  return probe_range(s.start, s.length, (s.access & mr_writes) != 0);
}

// Pinned memory has to be there; what comes on demand need not.
int prepare_mr(HcaState& h, const MrSpec& s, KeyTable::Direct& d) {
  constexpr uint64_t huge_page = uint64_t{2} << 20;
  d.pd = s.pd;
  d.start = s.iova.value();
  d.va = s.start.value();
  d.len = s.length;
  d.access = s.access;
  if ((s.access & access::on_demand) == 0) return probe_mr(s);
  d.implicit = is_implicit(s);
  PagedRegion::Shape shape{d.va, d.len, (s.access & mr_writes) != 0};
  if ((s.access & access::huge_pages) != 0) shape.unit = huge_page;
  const PageRange range = PageRange::of(d.va, d.len, shape.unit);
  if (!d.implicit && range.empty()) return -EINVAL;
  // As in the kernel, which keeps a word for each page in one allocation.
  constexpr uint64_t most_pages = INT32_MAX / sizeof(uint64_t);
  if (!d.implicit && (range.end - range.start) / shape.unit > most_pages) return -ENOMEM;
  d.paged = std::make_unique<PagedRegion>(h.paging, shape);
  return 0;
}

// The queue completes where its shared queue does: short data comes only as far as there is room in
// those entries, whatever its own completion queue's are like.
void use_tags(Qp& qp) {
  qp.recv_cq = qp.srq->cq;
  qp.tags = std::make_unique<TagWork>();
  const uint8_t room = qp.recv_cq->spec.cqe_bytes > sizeof(prm::Cqe) ? 64 : 32;
  qp.spec.scatter_received = std::min(qp.spec.scatter_received, room);
}

// Datagrams and frames name no key that their own queue changes.
void use_order(const HcaConfig& config, Qp& qp) {
  const bool connected = qp.type != QpType::ud && qp.type != QpType::raw_packet;
  if (config.order.strict() || !connected || qp.sq.wqebbs == 0) return;
  qp.weak = std::make_unique<WeakOrder>(config.order, config.seed << 24 ^ qp.qpn.value());
}

// Lists that the engine appends to without allocating.
void reserve_lists(HcaState& h) {
  h.waiting.reserve(h.qps.count() + 1);
}

Error refused(int rc, const char* what) noexcept {
  return Error{-rc, what};
}

}  // namespace

Result<MrKeys> reg_mr(HcaState& h, const MrSpec& s) {
  if (const char* why = mr_objection(h, s)) return Error{EINVAL, why};
  KeyTable::Direct direct;
  if (int rc = prepare_mr(h, s, direct); rc != 0)
    return refused(rc, rc == -ENOMEM ? "more pages than a region on demand may have"
                                     : "the range is not mapped, or not writable");
  Result<Mkey*> m = h.keys.create_direct(std::move(direct));
  if (!m) return m.error();
  if (h.lint) h.lint->registered(**m);
  return MrKeys{Lkey{(*m)->key}, Rkey{(*m)->key}};
}

// The linter watches memory that clients can unmap: not this.
Result<MrKeys> reg_dm_mr(HcaState& h, const DmMrSpec& s) {
  if (!h.pd_exists(s.pd)) return Error{EINVAL, "no such protection domain"};
  KeyTable::Direct direct;
  direct.pd = s.pd;
  direct.va = s.start.value();
  direct.len = s.length;
  direct.access = s.access;
  Result<Mkey*> m = h.keys.create_direct(std::move(direct));
  if (!m) return m.error();
  return MrKeys{Lkey{(*m)->key}, Rkey{(*m)->key}};
}

int rereg_mr(HcaState& h, MkeyIndex index, const MrSpec& s) {
  Mkey* m = h.keys.at(index.value());
  if (m == nullptr || m->mode != KeyMode::direct || mr_objection(h, s) != nullptr) return -EINVAL;
  KeyTable::Direct direct;
  if (int rc = prepare_mr(h, s, direct); rc != 0) return rc;
  h.keys.replace_direct(*m, std::move(direct));
  if (h.lint) h.lint->registered(*m);
  return 0;
}

Result<Rkey> alloc_mw(HcaState& h, Pdn pd, bool type2) {
  if (!h.config.profile.memory_windows) return Error{EOPNOTSUPP, "the adapter has no windows"};
  if (!h.pd_exists(pd)) return Error{EINVAL, "no such protection domain"};
  Result<Mkey*> m = h.keys.create_window(pd, type2);
  if (!m) return m.error();
  return Rkey{(*m)->key};
}

Result<Cqn> create_cq(HcaState& h, const CqSpec& s, EventSink* sink) {
  bool entry_ok = s.cqe_bytes == 64 || s.cqe_bytes == 128;
  if (!entry_ok || !std::has_single_bit(s.cqe_count) || s.cqe_count - 1 > h.config.profile.max_cqe)
    return Error{EINVAL, "size of a completion queue"};
  if (s.record.value() % 4 != 0) return Error{EINVAL, "doorbell record not aligned"};
  Uar* uar = h.uars.at(s.uar_page);
  if (uar == nullptr) return Error{EINVAL, "no such UAR page"};
  int rc = probe_range(s.buf, uint64_t{s.cqe_count} * s.cqe_bytes, true);
  if (rc == 0) rc = probe_range(s.record, record_bytes, true);
  if (rc != 0) return refused(rc, "the memory of the completion queue is not there");
  // The first request for events writes 0 into a word that may be 0 already: give it another value.
  uint64_t arm = s.record.value() + 4 * prm::record_arm;
  if (!dma::store(Va{arm}, ~uint32_t{0})) return Error{EFAULT, "the doorbell record is not there"};
  uint32_t number = 0;
  Cq* cq = h.cqs.create(number);
  if (cq == nullptr) return Error{ENOMEM, "the adapter has no more completion queues"};
  cq->cqn = Cqn{number};
  cq->spec = s;
  cq->sink = sink;
  uar->cqs.push_back(cq);
  h.uars.note_queues(*uar);
  return cq->cqn;
}

int resize_cq(HcaState& h, Cqn cqn, Va buf, uint32_t cqe_count) {
  Cq* cq = h.cqs.at(cqn.value());
  if (cq == nullptr || !std::has_single_bit(cqe_count)) return -EINVAL;
  if (cqe_count - 1 > h.config.profile.max_cqe) return -EINVAL;
  if (int rc = probe_range(buf, uint64_t{cqe_count} * cq->spec.cqe_bytes, true); rc != 0) return rc;
  return change_ring(h.context, *cq, buf, cqe_count) ? 0 : -EINVAL;
}

int moderate_cq(HcaState& h, Cqn cqn, uint16_t count, uint16_t period_us) {
  constexpr uint16_t longest_period = 4095;
  Cq* cq = h.cqs.at(cqn.value());
  if (cq == nullptr || period_us > longest_period) return -EINVAL;
  if (!h.config.profile.cq_moderation) return -EOPNOTSUPP;
  cq->moderation_count = count;
  cq->moderation_ns = uint64_t{period_us} * 1000;
  cq->event_at = cq->producer;
  cq->event_ns = clock_ns();
  std::erase(h.moderated, cq);
  if (period_us != 0) h.moderated.push_back(cq);
  return 0;
}

int destroy_cq(HcaState& h, Cqn cqn) {
  Cq* cq = h.cqs.at(cqn.value());
  if (cq == nullptr) return -EINVAL;
  if (cq->users != 0) return -EBUSY;
  Uar& uar = *h.uars.at(cq->spec.uar_page);
  std::erase(uar.cqs, cq);
  h.uars.note_queues(uar);
  std::erase(h.moderated, cq);
  h.cqs.destroy(cqn.value());
  return 0;
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

Result<Qpn> create_qp(HcaState& h, const QpSpec& s, EventSink* sink) {
  if (s.type == QpType::raw_packet && !h.config.profile.raw_packet)
    return Error{EOPNOTSUPP, "the adapter has no raw packet queues"};
  if (const char* why = qp_objection(h, s)) return Error{EINVAL, why};
  // Without receive WQEs their size says nothing, and may be any number.
  uint32_t rq_shift = s.rq_wqes != 0 ? s.rq_wqe_shift : 0;
  uint64_t rq_bytes = uint64_t{s.rq_wqes} << rq_shift;
  uint64_t sq_base = s.sq_buf.value() != 0 ? s.sq_buf.value() : s.buf.value() + rq_bytes;
  if (int rc = probe_rings(s, sq_base, rq_bytes); rc != 0)
    return refused(rc, "the memory of the queue pair is not there");
  uint32_t number = 0;
  Qp* qp = h.qps.create(number);
  if (qp == nullptr) return Error{ENOMEM, "the adapter has no more queue pairs"};
  reserve_lists(h);
  qp->qpn = Qpn{number};
  qp->type = s.type;
  qp->paged = paged_operations(h.config.profile, s.type);
  qp->spec = s;
  qp->spec.max_message = uint64_t{1} << h.config.profile.log_max_msg;
  qp->sink = sink;
  const bool rings = has_rings(s.type);
  const bool receives = s.type != QpType::xrc_ini && s.type != QpType::xrc_tgt;
  qp->send_cq = rings ? h.cqs.at(s.send_cq.value()) : nullptr;
  qp->recv_cq = receives ? h.cqs.at(s.recv_cq.value()) : nullptr;
  qp->srq = s.srqn != 0 ? h.srqs.at(s.srqn) : nullptr;
  if (qp->srq != nullptr && qp->srq->tags) use_tags(*qp);
  qp->sq.base = sq_base;
  qp->sq.wqebbs = s.sq_wqebbs;
  qp->rq = {s.buf.value(), s.rq_wqes, rq_shift, 0};
  use_order(h.config, *qp);
  count_users(h, *qp, 1);
  if (s.own_unicast || s.own_multicast) h.eth.own_queues++;
  if (rings) {
    Uar& uar = *h.uars.at(s.uar_page);
    uar.qps.push_back(qp);
    h.uars.note_queues(uar);
  }
  if (h.lint && rings) h.lint->add(*qp);
  return qp->qpn;
}

int open_qp(HcaState& h, Qpn qpn, uint32_t xrcd, const QpHandle& handle) {
  Qp* qp = h.qps.at(qpn.value());
  if (qp == nullptr || qp->type != QpType::xrc_tgt || qp->spec.xrcd != xrcd) return -EINVAL;
  qp->others.push_back(handle);
  return 0;
}

bool close_qp_handle(HcaState& h, Qpn qpn, const void* owner) {
  Qp* qp = h.qps.at(qpn.value());
  if (qp == nullptr || qp->others.empty()) return false;
  if (qp->spec.owner != owner) {
    std::erase_if(qp->others, [=](const QpHandle& other) { return other.owner == owner; });
    return true;
  }
  // The first one goes: another takes its place.
  qp->sink = qp->others.back().sink;
  qp->spec.owner = qp->others.back().owner;
  qp->others.pop_back();
  return true;
}

int destroy_qp(HcaState& h, Qpn qpn) {
  Qp* qp = h.qps.at(qpn.value());
  if (qp == nullptr) return -EINVAL;
  if (qp->groups != 0) return -EBUSY;
  if (qp->type == QpType::raw_packet) {
    if (int rc = eth_detach_qp(h.eth, *qp); rc != 0) return rc;
  }
  roce_part(h.roce, *qp);
  forget_work(h, *qp);
  h.context.in_error.remove(*qp);
  if (has_rings(qp->type)) {
    Uar& uar = *h.uars.at(qp->spec.uar_page);
    std::erase(uar.qps, qp);
    h.uars.note_queues(uar);
  }
  count_users(h, *qp, ~0u);
  if (qp->spec.own_unicast || qp->spec.own_multicast) h.eth.own_queues--;
  if (h.lint) h.lint->remove(*qp);
  h.qps.destroy(qpn.value());
  return 0;
}

}  // namespace kilim::vhca
