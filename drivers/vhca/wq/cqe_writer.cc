// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CQE Ownership", "CQ Events". Adapter's lock held. Never allocates.
#include "vhca/wq/cqe_writer.hh"

#include <algorithm>
#include <cstring>

#include <time.h>

#include "kilim/prm/doorbell.hh"
#include "vhca/core/journal.hh"
#include "vhca/memory/dma.hh"
#include "vhca/wq/compression.hh"
#include "vhca/wq/observer.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/vendor_bytes.hh"

namespace kilim::vhca::wq {

namespace {

constexpr uint32_t index_mask = prm::arm::index_mask;

uint32_t unread(const Cq& cq) noexcept {
  return (cq.producer + cq.held - cq.consumer) & index_mask;
}

// Where the client is. It passes the last entry of a ring without writing its record: that is made
// up for until it writes the next time.
bool check_consumer(Cq& cq) noexcept {
  uint32_t raw = 0;
  if (!memory::dma::load(Va{record_word(cq, prm::record_consumer_index)}, raw)) return false;
  uint32_t written = be32::from_raw(raw).host() & index_mask;
  if (written != cq.record) cq.passed = 0;
  cq.record = written;
  cq.consumer = (written + cq.passed) & index_mask;
  return true;
}

// Whether the ring has a free slot; the record is only read where it seems to have none.
bool has_room(Cq& cq, bool& fault) noexcept {
  fault = false;
  if (unread(cq) < cq.spec.cqe_count || cq.spec.ignore_overrun) return true;
  fault = !check_consumer(cq);
  return !fault && unread(cq) < cq.spec.cqe_count;
}

// What the first half of a long entry holds; null: it is left alone.
const std::byte* first_half(const EngineContext& context, const Cq& cq,
                            const prm::Cqe& cqe) noexcept {
  static constexpr std::byte padding[sizeof(prm::Cqe)]{};
  if (cq.spec.cqe_bytes == sizeof(cqe)) return nullptr;
  if ((cqe.op_own & prm::cqe::inline_scatter_64) != 0) return context.entry_data.data();
  return cq.spec.padded ? padding : nullptr;
}

}  // namespace

// PRM, cqc.cc: all entries of a collapsed queue go to the first place. All else is a ring's: each
// entry is of its own WQE, so that the one that is there tells of all WQEs up to its wqe_counter
// (NVSHMEM's ibgda_device.cuh, ibgda_poll_cq(); Mooncake's mc_ibgda_poll_cq()); the owner bit turns
// whenever as many were written as the queue has entries (ROCm/rocm-systems, rocSHMEM's GDA
// backend, which begins with the bit that a new ring has); and without cqc.oi more than these, of
// which the consumer's record does not tell, are an overrun.
uint64_t entry_address(const Cq& cq, uint32_t index) noexcept {
  const uint64_t slot = cq.spec.collapsed ? 0 : index & (cq.spec.cqe_count - 1);
  return cq.spec.buf.value() + slot * cq.spec.cqe_bytes + (cq.spec.cqe_bytes - sizeof(prm::Cqe));
}

bool store_entry(const EngineContext& context, const Cq& cq, const prm::Cqe& cqe) noexcept {
  const uint64_t at = entry_address(cq, cq.producer);
  const std::byte* first = first_half(context, cq, cqe);
  if (first != nullptr && !memory::dma::copy_out(Va{at - sizeof(cqe)}, first, sizeof(cqe)))
    return false;
  uint64_t last;  // with op_own: one store, after all others
  std::memcpy(&last, reinterpret_cast<const std::byte*>(&cqe) + 56, sizeof(last));
  return memory::dma::copy_out(Va{at}, &cqe, 56) && memory::dma::store(Va{at + 56}, last);
}

namespace {

// The data of a completion, in the entry's own first bytes or in the half before it.
void carry_data(const EngineContext& context, const Cq& cq, prm::Cqe& cqe) noexcept {
  static_assert(sizeof(context.entry_data) == sizeof(cqe));
  constexpr std::size_t own_bytes = 32;
  if (cq.spec.cqe_bytes > sizeof(cqe)) {
    cqe.op_own = prm::cqe::inline_scatter_64;
    return;
  }
  std::memcpy(&cqe, context.entry_data.data(), own_bytes);
  cqe.op_own = prm::cqe::inline_scatter_32;
}

// As a card with a real-time clock stamps: seconds in the upper half, nanoseconds in the lower.
uint64_t time_of_day() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) << 32 | static_cast<uint64_t>(t.tv_nsec);
}

// Whom the client asks for the receive: a shared queue with a completion queue of its own.
uint32_t receiver_uidx(const Qp& qp) noexcept {
  return qp.srq != nullptr && qp.srq->cq != nullptr ? qp.srq->spec.uidx : qp.spec.uidx;
}

prm::ErrCqe error_entry(const Qp& qp, const Verdict& verdict, DataWay way,
                        uint16_t wqe_index) noexcept {
  constexpr std::size_t hardware_at = 52 - offsetof(prm::ErrCqe, rsvd1), type_at = hardware_at + 1;
  static_assert(type_at + 1 == sizeof(prm::ErrCqe::rsvd1));
  const VendorBytes bytes = vendor_bytes(verdict, way);
  prm::ErrCqe err{};
  err.syndrome = static_cast<uint8_t>(verdict.syndrome);
  err.vendor_err_synd = bytes.vendor;
  err.rsvd1[hardware_at] = bytes.hardware;
  err.rsvd1[type_at] = bytes.hardware_type;
  err.s_wqe_opcode_qpn = be32{qp.qpn.value()};
  err.wqe_counter = be16{wqe_index};
  return err;
}

// As an entry; the journal has it from now on.
prm::Cqe report_error(const EngineContext& context, const Cq& cq, prm::CqeOpcode op,
                      const prm::ErrCqe& err) noexcept {
  prm::Cqe cqe;
  static_assert(sizeof(cqe) == sizeof(err));
  std::memcpy(&cqe, &err, sizeof(cqe));
  const Qpn qpn{err.s_wqe_opcode_qpn.host() & 0xffffff};
  context.journal->cqe(cq.cqn, qpn, static_cast<uint8_t>(op), err.wqe_counter.host(), 0);
  return cqe;
}

// With an event, which may be the one that the client has armed the queue for.
bool write_telling(EngineContext& context, Cq& cq, prm::Cqe& cqe, prm::CqeOpcode op) noexcept {
  const bool armed = cq.armed;
  if (!write_cqe(context, cq, cqe, op, op == prm::CqeOpcode::req_err)) return false;
  if (cq.armed == armed) raise_event(context, cq);
  return true;
}

void report_tag_news(prm::Cqe& cqe, prm::TagNews news, uint16_t place) noexcept {
  cqe.app = prm::tag::app_tag_matching;
  cqe.app_op = static_cast<uint8_t>(news);
  cqe.app_info = be16{place};
}

}  // namespace

uint32_t straight_room(Cq& cq) noexcept {
  const uint32_t count = cq.spec.cqe_count;
  const uint32_t straight = count - ((cq.producer + cq.held) & (count - 1));
  if (cq.spec.ignore_overrun) return straight;
  bool fault = false;
  return has_room(cq, fault) ? std::min(straight, count - unread(cq)) : 0;
}

uint64_t stamp(const EngineContext& context, const Cq& cq) noexcept {
  return cq.spec.time_of_day ? time_of_day() : context.now_ns;
}

bool claim_entry(EngineContext& context, Cq& cq) noexcept {
  if (cq.error) return false;
  bool fault = false;
  if (has_room(cq, fault)) return true;
  if (cq.held != 0) (void)close_block(context, cq);  // good entries come before the queue's error
  cq.overran = !fault;
  fail_cq(context, cq, fault ? "the doorbell record of a CQ is gone" : "CQ overrun");
  return false;
}

bool write_cqe(EngineContext& context, Cq& cq, prm::Cqe& cqe, prm::CqeOpcode op,
               bool solicited) noexcept {
  if (cq.held != 0) [[unlikely]]
    (void)close_block(context, cq);
  if (!claim_entry(context, cq)) return false;
  bool error = op == prm::CqeOpcode::req_err || op == prm::CqeOpcode::resp_err;
  if (!error) cqe.timestamp = be64{stamp(context, cq)};
  cqe.signature = 0;
  cqe.op_own |= prm::cqe::op_own(op, solicited, (cq.producer & cq.spec.cqe_count) != 0);
  if (!store_entry(context, cq, cqe)) {
    fail_cq(context, cq, "the memory of a CQ is gone");
    return false;
  }
  cq.producer = (cq.producer + 1) & index_mask;
  if (solicited || error) {
    cq.last_solicited = cq.producer;
    cq.has_solicited = true;
  }
  if (cq.armed) fire_if_due(context, cq);
  return true;
}

bool client_has_read(Cq& cq) noexcept {
  return !check_consumer(cq) || cq.consumer != 0;
}

bool change_ring(EngineContext& context, Cq& cq, Va buf, uint32_t cqe_count) noexcept {
  if (cq.error || !check_consumer(cq)) return false;
  if (unread(cq) >= cq.spec.cqe_count || unread(cq) >= cqe_count) return false;
  prm::Cqe cqe{};
  cqe.op_own =
      prm::cqe::op_own(prm::CqeOpcode::resize_cq, false, (cq.producer & cq.spec.cqe_count) != 0);
  if (!store_entry(context, cq, cqe)) {
    fail_cq(context, cq, "the memory of a CQ is gone");
    return false;
  }
  // The client counts this entry as read: it is nothing to wake up for.
  if (cq.armed_at == cq.producer) cq.armed_at = (cq.armed_at + 1) & index_mask;
  cq.producer = (cq.producer + 1) & index_mask;
  cq.consumer = (cq.consumer + 1) & index_mask;
  cq.passed++;
  cq.spec.buf = buf;
  cq.spec.cqe_count = cqe_count;
  return true;
}

bool complete_send(EngineContext& context, Qp& qp, const SendCompletion& done) noexcept {
  prm::Cqe cqe{};
  if (done.in_entry) carry_data(context, *qp.send_cq, cqe);
  cqe.srqn_uidx = be32{qp.spec.uidx};
  cqe.byte_cnt = be32{done.bytes};
  cqe.sop_drop_qpn = be32{prm::cqe::wqe_opcode::at(done.wqe_opcode) | qp.qpn.value()};
  cqe.wqe_counter = be16{done.wqe_index};
  context.journal->cqe(qp.send_cq->cqn, qp.qpn, 0, done.wqe_index, done.bytes);
  if (qp.watched != nullptr) [[unlikely]]
    context.observer->completed(qp, done.wqe_index);
  if (done.event) [[unlikely]]
    return write_telling(context, *qp.send_cq, cqe, prm::CqeOpcode::req);
  return write_cqe(context, *qp.send_cq, cqe, prm::CqeOpcode::req, false);
}

bool complete_recv(EngineContext& context, Qp& qp, const RecvCompletion& done) noexcept {
  prm::Cqe cqe{};
  cqe.srqn_uidx = be32{receiver_uidx(qp)};
  constexpr uint32_t grh_flag = 1u << 28;
  cqe.flags_rqpn = be32{(done.remote_qpn & prm::cqe::rqpn::mask) | uint32_t{done.sl} << 24 |
                        (done.grh ? grh_flag : 0)};
  cqe.slid = be16{done.slid};
  if (done.in_entry) carry_data(context, *qp.recv_cq, cqe);
  cqe.imm_inval_pkey = be32::from_raw(done.imm_raw);
  if (done.news != prm::TagNews::none) report_tag_news(cqe, done.news, 0);
  cqe.byte_cnt = be32{done.bytes};
  cqe.sop_drop_qpn = be32{qp.qpn.value()};
  cqe.wqe_counter = be16{done.wqe_index};
  context.journal->cqe(qp.recv_cq->cqn, qp.qpn, static_cast<uint8_t>(done.op), done.wqe_index,
                       done.bytes);
  return write_cqe(context, *qp.recv_cq, cqe, done.op, done.solicited);
}

bool complete_tag(EngineContext& context, Qp& qp, const TagCompletion& done) noexcept {
  prm::Cqe cqe{};
  static_assert(offsetof(prm::Cqe, rx_hash_type) == 16);
  std::memcpy(static_cast<void*>(&cqe), done.head.data(), done.head.size());
  cqe.srqn_uidx = be32{qp.srq->spec.uidx};
  cqe.imm_inval_pkey = be32::from_raw(done.imm_raw);
  report_tag_news(cqe, done.news, done.place);
  cqe.byte_cnt = be32{done.bytes};
  cqe.sop_drop_qpn = be32{qp.qpn.value()};
  cqe.wqe_counter = be16{done.wqe_index};
  Cq& cq = *qp.srq->cq;
  context.journal->cqe(cq.cqn, qp.qpn, static_cast<uint8_t>(done.op), done.wqe_index, done.bytes);
  context.journal->tag(qp.srq->srqn, static_cast<uint8_t>(done.news), done.place, done.bytes,
                       qp.srq->tags->came());
  return write_cqe(context, cq, cqe, done.op, done.solicited);
}

namespace {

TransportCount count_of(prm::Syndrome s) noexcept {
  switch (s) {
    case prm::Syndrome::remote_inval_req:
      return TransportCount::req_remote_invalid_request;
    case prm::Syndrome::remote_access:
      return TransportCount::req_remote_access_errors;
    case prm::Syndrome::transport_retry_exc:
      return TransportCount::req_transport_retries_exceeded;
    case prm::Syndrome::rnr_retry_exc:
      return TransportCount::req_rnr_retries_exceeded;
    case prm::Syndrome::wr_flush:
      return TransportCount::req_cqe_flush_error;
    default:
      return TransportCount::req_cqe_error;
  }
}

// The first entry of a queue that software has moved to ERR counts as an error, not as a flush.
void count_failed_send(TransportCounts& counts, prm::Syndrome s, bool own_end) noexcept {
  counts.add(TransportCount::req_cqe_error);
  const TransportCount cause = count_of(s);
  if (cause != TransportCount::req_cqe_error && !own_end) counts.add(cause);
}

void count_failed_recv(TransportCounts& counts, prm::Syndrome s) noexcept {
  counts.add(TransportCount::resp_cqe_error);
  if (s == prm::Syndrome::wr_flush) counts.add(TransportCount::resp_cqe_flush_error);
  if (s == prm::Syndrome::local_length) counts.add(TransportCount::resp_local_length_error);
}

}  // namespace

bool complete_failed_send(EngineContext& context, Qp& qp, const SendFailure& f) noexcept {
  // A series of flushed WQEs may have one entry only, that of its first (DPDK sizes its transmit
  // queues so: MLX5_COMP_ONLY_FIRST_ERR in mlx5_tx_cseg_init, drivers/net/mlx5/mlx5_tx.h).
  const uint8_t mode = prm::ctrl::completion_mode(f.fm_ce_se);
  const bool flushed = f.verdict.syndrome == prm::Syndrome::wr_flush;
  if (qp.watched != nullptr) context.observer->completed(qp, f.wqe_index);
  if (mode == prm::ctrl::only_first_error && flushed && qp.send_error_told) return true;
  prm::ErrCqe err = error_entry(qp, f.verdict, way_of_send(f.wqe_opcode), f.wqe_index);
  // unionxic/rdma-fault-characterization: a WRITE of a queue that software moves has 0xf5, those
  // behind any error have 0xf9.
  const bool own_end = flushed && qp.ended_by_client && !qp.send_error_told;
  if (own_end) err.vendor_err_synd = vendor_of_own_end;
  count_failed_send(context.counts, f.verdict.syndrome, own_end);
  qp.send_error_told = true;
  err.srqn = be32{qp.spec.uidx};
  err.s_wqe_opcode_qpn = be32{prm::cqe::err_wqe_opcode::at(f.wqe_opcode) | qp.qpn.value()};
  Cq& cq = *qp.send_cq;
  prm::Cqe cqe = report_error(context, cq, prm::CqeOpcode::req_err, err);
  if (mode == prm::ctrl::cq_update_and_event)
    return write_telling(context, cq, cqe, prm::CqeOpcode::req_err);
  // Each requester's dump has the bit; of receives those of raw packet queues have it not.
  return write_cqe(context, cq, cqe, prm::CqeOpcode::req_err, true);
}

bool complete_failed_recv(EngineContext& context, Qp& qp, uint16_t wqe_index,
                          const Verdict& verdict) noexcept {
  count_failed_recv(context.counts, verdict.syndrome);
  prm::ErrCqe err = error_entry(qp, verdict, DataWay::receive, wqe_index);
  err.srqn = be32{receiver_uidx(qp)};
  prm::Cqe cqe = report_error(context, *qp.recv_cq, prm::CqeOpcode::resp_err, err);
  return write_cqe(context, *qp.recv_cq, cqe, prm::CqeOpcode::resp_err,
                   qp.type != QpType::raw_packet);
}

}  // namespace kilim::vhca::wq
