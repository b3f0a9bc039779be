// SPDX-License-Identifier: BSD-3-Clause
// Counts, writes, sums up. Adapter's lock held. Never allocates.
#include "vhca/explain/explainer.hh"

#include <algorithm>
#include <array>
#include <string_view>

#include "vhca/core/journal.hh"
#include "vhca/tpt/transfer.hh"

namespace kilim::vhca::explain {
namespace {

// A refusal's cause is its sentence with places for its numbers, which differ from time to time.
void put_cause(prm::Text& t, std::string_view cause) noexcept {
  for (std::size_t at; (at = cause.find('{')) != cause.npos; cause.remove_prefix(at)) {
    t.put(cause.substr(0, at)).put('n');
    at = std::min(cause.find('}', at), cause.size() - 1) + 1;
  }
  t.put(cause);
}

}  // namespace

const char* name_of(QpState s) noexcept {
  constexpr const char* names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return names[static_cast<std::size_t>(s)];
}

void put_place(prm::Text& t, const wq::Qp& qp, uint16_t wqe_index, const char* what) noexcept {
  t.put("queue ").hex(qp.qpn.value()).put(", ").put(what).put(' ').dec(wqe_index).put(": ");
}

void Explainer::is_flushed(const wq::Qp& qp, bool send, uint16_t wqe_index) noexcept {
  if (flushed_++ != 0) return;
  bool failed = false;
  told_.for_each([&](const Told::Row& r) { failed = failed || r.queue == qp.qpn.value(); });
  std::array<char, 512> buffer;
  prm::Text t{buffer};
  put_place(t, qp, wqe_index, send ? "WQE" : "receive WQE");
  t.put("IBV_WC_WR_FLUSH_ERR: it was not executed, since the queue is in state ");
  t.put(name_of(qp.state)).put(", as are all behind it, which are only counted; ");
  t.put(failed ? "the error that was told before took it there"
               : "no request of it had failed: ibv_modify_qp() or its peer took it there");
  tell({qp.qpn.value(), wqe_index}, true, t.view());
}

void Explainer::queue_breaks(const wq::Qp& qp, const char* why) noexcept {
  std::array<char, 512> buffer;
  prm::Text t{buffer};
  t.put("queue ").hex(qp.qpn.value()).put(": IBV_EVENT_QP_FATAL: ").put(why);
  t.put(": nothing of it completes any more");
  tell({qp.qpn.value()}, told_.is_news(qp.qpn.value(), true, why), t.view());
}

void Explainer::verb_fails(const char* cause, std::string_view sentence,
                           const Told::About& about) noexcept {
  if (told_.is_news(0, true, cause, about)) write_explanation(around_.device, sentence);
}

bool Explainer::put_list(prm::Text& t, const tpt::SegmentList& list, uint64_t bytes,
                         About& about) noexcept {
  uint32_t place = 0;
  for (const tpt::Segment& s : list.segments) {
    tpt::Segment part = s;
    part.bytes = std::min(s.bytes, bytes);
    bytes -= part.bytes;
    const uint32_t here = place++;
    if (part.bytes == 0 || part.immediate) continue;
    const KeyCause c =
        find_key_cause(*around_.keys, around_.profile->max_indirection, part, list.need);
    if (c.fault == KeyFault::none) continue;
    about.key = part.key;
    about.at = part.addr;
    about.bytes = part.bytes;
    t.put("segment ").dec(here).put(" asks key ").hex(part.key).put(" for ");
    put_range(t, part.addr, part.bytes);
    t.put(", for ");
    put_rights(t, list.need.rights);
    t.put(": ");
    put_key_cause(t, c, *around_.keys, freed_);
    if (const KeyHistory::Row* row = history_.find(c.key >> 8))
      put_last_change(t, *row, *around_.now_ns);
    return true;
  }
  return false;
}

void Explainer::key_changes(const wq::Qp& qp, uint16_t wqe_index, uint32_t key,
                            wq::KeyChange change) noexcept {
  history_.add({key, qp.qpn.value(), *around_.now_ns, wqe_index, change});
}

void Explainer::tell(const About& about, bool news, std::string_view sentence) noexcept {
  around_.journal->explained(Qpn{about.queue}, about.index, {about.key, about.at, about.bytes},
                             sentence);
  if (news) write_explanation(around_.device, sentence);
}

void Explainer::sum_up() noexcept {
  if (told_.all() == 0 && flushed_ == 0) return;
  std::array<char, 512> buffer;
  prm::Text t{buffer};
  t.dec(told_.all()).put(" failures and refusals of ").dec(told_.sentences()).put(" causes, and ");
  t.dec(flushed_).put(" requests flushed");
  if (told_.untold() != 0) t.put("; ").dec(told_.untold()).put(" were only counted");
  write_explanation(around_.device, t.view());
  told_.for_each([this](const Told::Row& r) {
    if (r.count == 1) return;
    std::array<char, 512> line;
    prm::Text text{line};
    if (r.queue != 0) text.put("queue ").hex(r.queue).put(": ");
    text.dec(r.count).put(" times: ");
    if (*r.about.verb != '\0') text.put(r.about.verb).put(": ").put(r.about.field);
    put_cause(text, r.cause);
    write_explanation(around_.device, text.view());
  });
}

}  // namespace kilim::vhca::explain
