// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_CQ", "MODIFY_CQ". Adapter's lock held.
#include <bit>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <vector>

#include "kilim/prm/doorbell.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/doorbells.hh"
#include "vhca/hca/objects.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/probe.hh"
#include "vhca/wq/cqe_writer.hh"

namespace kilim::vhca::hca {

namespace {
constexpr uint32_t cq_record_bytes = 8;         // consumer index, arm word
constexpr std::size_t commands_wait_for = 256;  // requests and frames

// The first request for events writes 0 into a word that may be 0 already: it gets another value. A
// card only reads the record (Linux drivers/infiniband/hw/mlx5/doorbell.c, mlx5_ib_db_map_user(),
// pins it without write access), so that it may lie where nothing can be written. False: it does,
// and the word is known as it stands.
bool mark_record(wq::Cq& cq) noexcept {
  const Va arm{wq::record_word(cq, prm::record_arm)};
  if (!cq.spec.record_read_only && memory::dma::store(arm, cq.arm_word)) return true;
  uint32_t raw = 0;
  if (memory::dma::load(arm, raw)) cq.arm_word = be32::from_raw(raw).host();
  return false;
}

}  // namespace

Result<Cqn> create_cq(Hca& h, const CqSpec& s, EventSink* sink) {
  bool entry_ok = s.cqe_bytes == 64 || s.cqe_bytes == 128;
  if (!entry_ok || !std::has_single_bit(s.cqe_count) || s.cqe_count - 1 > h.config.profile.max_cqe)
    return Error{EINVAL, "size of a completion queue"};
  if (s.record.value() % 4 != 0) return Error{EINVAL, "doorbell record not aligned"};
  Uar* uar = h.uars.at(s.uar_page);
  if (uar == nullptr) return Error{EINVAL, "no such UAR page"};
  int rc = memory::probe_range(s.buf, uint64_t{s.cqe_count} * s.cqe_bytes, true);
  if (rc == 0) rc = memory::probe_range(s.record, cq_record_bytes, false);
  if (rc != 0) return Error{-rc, "the memory of the completion queue is not there"};
  uint32_t number = 0;
  wq::Cq* cq = h.cqs.create(number);
  if (cq == nullptr) return Error{ENOMEM, "the adapter has no more completion queues"};
  cq->cqn = Cqn{number};
  cq->spec = s;
  cq->sink = sink;
  cq->plain_entries = s.cqe_bytes == sizeof(prm::Cqe) && !s.time_of_day && !s.collapsed;
  cq->unmarked = !mark_record(*cq);
  if (s.mini != MiniFormat::none) cq->block = std::make_unique<wq::CqeBlock>();
  uar->cqs.add(*cq);
  h.uars.note_queues(*uar);
  return cq->cqn;
}

int resize_cq(Hca& h, Cqn cqn, Va buf, uint32_t cqe_count) {
  // What was asked for before is done before: on a card a command takes longer than any request.
  check_all_doorbells(h);
  h.run(commands_wait_for);
  wq::Cq* cq = h.cqs.at(cqn.value());
  if (cq == nullptr || !std::has_single_bit(cqe_count)) return refusal::absent("cqn", cqn.value());
  if (cqe_count - 1 > h.config.profile.max_cqe)
    return refusal::most("cqe", cqe_count - 1, h.config.profile.max_cqe);
  if (int rc = memory::probe_range(buf, uint64_t{cqe_count} * cq->spec.cqe_bytes, true); rc != 0)
    return rc;
  return wq::change_ring(h.context, *cq, buf, cqe_count)
             ? 0
             : refusal::least("cqe: entries that wait are more; it", cqe_count,
                              cq->producer - cq->consumer);
}

int moderate_cq(Hca& h, Cqn cqn, uint16_t count, uint16_t period_us) {
  constexpr uint16_t longest_period = 4095;
  wq::Cq* cq = h.cqs.at(cqn.value());
  if (cq == nullptr) return refusal::absent("cqn", cqn.value());
  if (period_us > longest_period) return refusal::most("cq_period", period_us, longest_period);
  if (!h.config.profile.cq_moderation) return refusal::lacks("moderation");
  cq->moderation_count = count;
  cq->moderation_ns = uint64_t{period_us} * 1000;
  cq->event_at = cq->producer;
  cq->event_ns = clock_ns();
  std::erase(h.moderated, cq);
  if (period_us != 0) h.moderated.push_back(cq);
  return 0;
}

int destroy_cq(Hca& h, Cqn cqn) {
  wq::Cq* cq = h.cqs.at(cqn.value());
  if (cq == nullptr) return refusal::absent("cqn", cqn.value());
  if (cq->users != 0) return refusal::busy("the completion queue", cq->users);
  Uar& uar = *h.uars.at(cq->spec.uar_page);
  uar.cqs.remove(*cq);
  h.uars.note_queues(uar);
  std::erase(h.moderated, cq);
  h.cqs.destroy(cqn.value());
  return 0;
}

}  // namespace kilim::vhca::hca
