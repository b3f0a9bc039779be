// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CQ Events". Adapter's lock held. Never allocates.
#include "vhca/wq/cq_events.hh"

#include "kilim/prm/doorbell.hh"
#include "vhca/core/journal.hh"
#include "vhca/memory/dma.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::wq {

namespace {

constexpr uint32_t arm_mask = prm::arm::index_mask;

// Counts from the armed index to now, signed in 24 bits.
bool behind(uint32_t from, uint32_t to) noexcept {
  return ((to - from) & arm_mask) - 1 < arm_mask / 2;
}

// Whether there is what the client asked to be told of.
bool has_news(const Cq& cq) noexcept {
  if (!cq.armed) return false;
  return cq.armed_solicited ? cq.has_solicited && behind(cq.armed_at, cq.last_solicited)
                            : cq.producer != cq.armed_at;
}

// Whether moderation lets the event pass.
bool is_time(const EngineContext& context, const Cq& cq) noexcept {
  if (cq.moderation_count == 0 && cq.moderation_ns == 0) return true;
  uint32_t entries = (cq.producer - cq.event_at) & arm_mask;
  if (cq.moderation_count != 0 && entries >= cq.moderation_count) return true;
  return cq.moderation_ns != 0 && context.now_ns - cq.event_ns >= cq.moderation_ns;
}

void fire(const EngineContext& context, Cq& cq) noexcept {
  cq.event_at = cq.producer;
  cq.event_ns = context.now_ns;
  if (cq.sink != nullptr) cq.sink->completion(cq.spec.owner);
}

}  // namespace

void fail_cq(EngineContext& context, Cq& cq, const char* why) noexcept {
  if (cq.error) return;
  cq.error = true;
  context.journal->error(Qpn{0}, prm::Syndrome::none, 0, 0, why);
  context.journal->async(event::cq_err, cq.cqn.value());
  if (cq.sink != nullptr) cq.sink->async(event::cq_err, cq.spec.owner);
}

void fire_if_due(const EngineContext& context, Cq& cq) noexcept {
  if (!has_news(cq) || !is_time(context, cq)) return;
  cq.armed = false;
  fire(context, cq);
}

void raise_event(const EngineContext& context, Cq& cq) noexcept {
  // One that was armed has its event now; moderation holds back only what is armed.
  if (has_news(cq)) cq.armed = false;
  fire(context, cq);
}

uint64_t event_deadline(const Cq& cq) noexcept {
  bool waits = cq.moderation_ns != 0 && !cq.error && has_news(cq);
  return waits ? cq.event_ns + cq.moderation_ns : ~uint64_t{0};
}

void check_period(EngineContext& context, Cq& cq) noexcept {
  if (!cq.error) fire_if_due(context, cq);
}

bool check_arm(EngineContext& context, Cq& cq, bool rang) noexcept {
  if (cq.error) return false;
  uint32_t raw = 0;
  if (!memory::dma::load(Va{record_word(cq, prm::record_arm)}, raw)) {
    fail_cq(context, cq, "the doorbell record of a CQ is gone");
    return true;
  }
  uint32_t arm = be32::from_raw(raw).host();
  if (arm == cq.arm_word && !(cq.unmarked && rang)) return false;
  cq.arm_word = arm;
  cq.unmarked = false;
  // Who waits for any entry is not made to wait for less (IBA 11.4.2.2).
  const bool waits_for_any = cq.armed && !cq.armed_solicited;
  cq.armed = true;
  cq.armed_solicited = !waits_for_any && (arm & prm::arm::solicited_only) != 0;
  cq.armed_at = arm & arm_mask;
  fire_if_due(context, cq);
  return true;
}

}  // namespace kilim::vhca::wq
