// SPDX-License-Identifier: BSD-3-Clause
// Takes the failed WQE apart; explain_range.cc follows the ranges that it names.
#include "kilim/detail/diag/explain.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/diag/explain_range.hh"
#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/dump.hh"

namespace kilim::inline v1::diag {

namespace {

using prm::Opcode;
using prm::Syndrome;
using prm::Text;

namespace layout = prm::lint;

using detail::explain_range;
using detail::Range;
using detail::say_key;

// The request that failed, and what its queue puts behind the control segment.
struct Request {
  prm::lint::Bytes bytes;
  prm::lint::QueueKind kind;
  [[nodiscard]] Opcode opcode() const {
    return static_cast<Opcode>(
        prm::ctrl::opcode::get(prm::lint::segment_at<prm::CtrlSeg>(bytes, 0)));
  }
};

Range remote_range(const Request& w, Opcode op, uint64_t bytes, unsigned& steps) {
  const auto r = prm::lint::segment_at<prm::RaddrSeg>(w.bytes, layout::remote_at(w.bytes, w.kind));
  const uint8_t right = op == Opcode::rdma_read ? prm::mkey::remote_read
                        : op == Opcode::atomic_cs || op == Opcode::atomic_fa
                            ? prm::mkey::atomic
                            : prm::mkey::remote_write;
  return {r.rkey.host(), r.raddr.host(), right == prm::mkey::atomic ? 8 : bytes, right, &steps};
}

// Returns the sum of the local segments' bytes. With `blame` it follows each of them until one
// explains the error; `said`: one did.
uint64_t explain_local(Text& t, MkeyBook& book, const Request& request, bool blame, bool& said) {
  const prm::lint::Bytes w = request.bytes;
  const Opcode op = request.opcode();
  const auto head = layout::head_of(op);
  const uint32_t right = head.answer ? prm::mkey::local_write : prm::mkey::local_read;
  uint64_t sum = 0;
  unsigned steps = 0;
  std::size_t at = layout::data_at(w, op, request.kind);
  for (unsigned i = 0; at != 0 && at + sizeof(prm::DataSeg) <= w.size(); i++) {
    const auto d = prm::lint::segment_at<prm::DataSeg>(w, at);
    const uint32_t n = d.byte_count.host();
    if ((n & prm::inline_flag) != 0) {
      sum += n & prm::inline_length_mask;
      at += round_up((n & prm::inline_length_mask) + 4, 16);
      continue;
    }
    at += sizeof(d);
    sum += n;
    if (!blame || said) continue;
    Text mark = t;
    t.put("segment ").dec(i).put(": ");
    said = explain_range(t, book, {d.lkey.host(), d.addr.host(), n, right, &steps}, 0);
    if (said)
      book.count_fault(d.lkey.host());
    else
      t = mark;
  }
  return sum;
}

// A UMR that failed. The book does not tell what the device checked, so the last sentence is
// general.
bool explain_bind(Text& t, const MkeyBook& book, prm::lint::Bytes w) {
  const auto c = prm::lint::segment_at<prm::CtrlSeg>(w, 0);
  const prm::lint::Findings found = prm::lint::check_wqe(w);
  if (!found.empty()) {
    prm::explain_finding(t, found.list[0]);
    return true;
  }
  if (book.find(c.imm.host()) == nullptr) {
    t.put("nobody knows key ").hex(c.imm.host());
    return true;
  }
  t.put("the adapter refuses to change key ").hex(c.imm.host());
  t.put(": its tag, its state or its room for entries is not what the WQE takes for granted");
  return true;
}

// What can be said from the syndrome alone.
const char* general(Syndrome s) noexcept {
  switch (s) {
    case Syndrome::wr_flush:
      return "the queue had failed before; this request was not looked at";
    case Syndrome::transport_retry_exc:
      return "the peer does not answer: it is gone, not connected to this queue, or the wire is "
             "cut";
    case Syndrome::rnr_retry_exc:
      return "the peer has posted no receive, and all retries are used up";
    case Syndrome::remote_inval_req:
      return "the peer takes no such request: its queue's rights, or its receive is too short";
    case Syndrome::remote_op:
      return "the peer could not do it: its receive names memory that it may not write";
    case Syndrome::local_length:
      return "the message is longer than may be, or than the receive that it met";
    default:
      return "the book of keys holds no reason";
  }
}

bool explain_wqe(Text& t, Syndrome s, const Request& w, MkeyBook& book) {
  const Opcode op = w.opcode();
  bool said = false;
  if (op == Opcode::umr) return s != Syndrome::wr_flush && explain_bind(t, book, w.bytes);
  if (s == Syndrome::local_prot) explain_local(t, book, w, true, said);
  const std::size_t remote_end = layout::remote_at(w.bytes, w.kind) + sizeof(prm::RaddrSeg);
  if (s == Syndrome::remote_access && layout::head_of(op).remote && w.bytes.size() >= remote_end) {
    const uint64_t bytes = explain_local(t, book, w, false, said);
    unsigned steps = 0;
    const Range r = remote_range(w, op, bytes, steps);
    Text mark = t;
    t.put("remote side: ");
    said = explain_range(t, book, r, 0);
    if (said)
      book.count_fault(r.key);
    else
      t = mark;
  }
  if (s == Syndrome::local_qp_op) {
    const prm::lint::Findings found = prm::lint::check_wqe(w.bytes, w.kind);
    if (!found.empty()) prm::explain_finding(t, found.list[0]);
    said = !found.empty();
  }
  return said;
}

void explain_signature(Text& t, const queue::Completion& c, MkeyBook& book) {
  const bool guard = (c.wqe_counter & prm::sig_err::guard) != 0;
  const bool app = (c.wqe_counter & prm::sig_err::app_tag) != 0;
  const bool wire = c.vendor_syndrome == prm::sig_err::wire;
  t.put(guard ? "the guard" : app ? "the application tag" : "the reference tag");
  t.put(" of the block at ")
      .dec(c.byte_len)
      .put(wire ? " of what came over the wire" : " of the memory");
  t.put(wire ? " for key " : " of key ").hex(c.imm).put(" is wrong");
  if (const MkeyRecord* k = book.find(c.imm); k != nullptr && k->indirect()) {
    t.put(": ");
    say_key(t, *k);
  }
  t.put("; the data has been moved all the same");
  book.count_fault(c.imm);
}

}  // namespace

SavedWqe save_wqe(const queue::Sq& sq, uint16_t counter) noexcept {
  SavedWqe saved;
  const queue::SqGeometry& g = sq.geometry();
  const uint32_t blocks = std::min<uint32_t>(g.wqebb_count, sizeof(saved.raw) / wqebb_bytes);
  for (uint32_t i = 0; i < blocks; i++)
    std::memcpy(saved.raw.data() + std::size_t{i} * wqebb_bytes,
                g.buf + std::size_t{(counter + i) & (g.wqebb_count - 1)} * wqebb_bytes,
                wqebb_bytes);
  const auto c = prm::lint::segment_at<prm::CtrlSeg>(saved.raw, 0);
  saved.size = std::min(std::size_t{prm::ctrl::ds::get(c)} * octoword_bytes,
                        std::size_t{blocks} * wqebb_bytes);
  return saved;
}

void explain(Text& t, const queue::Completion& c, prm::lint::Bytes wqe, MkeyBook& book,
             prm::lint::QueueKind kind) {
  if (c.opcode == prm::CqeOpcode::sig_err) return explain_signature(t, c, book);
  const char* op = prm::opcode_name(static_cast<uint8_t>(c.wqe_opcode));
  t.put(c.of_requester() && op != nullptr ? op : "receive").put(" at WQE ").dec(c.wqe_counter);
  t.put(" of queue ").hex(c.qpn.value()).put(" failed with ").put(prm::verbs_name(c.syndrome));
  t.put(": ");
  const bool known = c.of_requester() && wqe.size() >= sizeof(prm::CtrlSeg);
  if (!known || !explain_wqe(t, c.syndrome, {wqe, kind}, book)) t.put(general(c.syndrome));
}

}  // namespace kilim::inline v1::diag
