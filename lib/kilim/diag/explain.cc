// SPDX-License-Identifier: BSD-3-Clause
// Follows a request through the book as the adapter followed it through its table, and stops where
// the adapter must have stopped.
#include "kilim/diag/explain.hh"

#include <algorithm>
#include <cstring>

#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/dump.hh"

namespace kilim::diag {

namespace {

using prm::Opcode;
using prm::Syndrome;
using prm::Text;

namespace layout = prm::lint::detail;

constexpr unsigned most_depth = 8;
constexpr unsigned most_steps = 1 << 19;  // a list that names itself has no end

struct Range {
  uint32_t key;
  uint64_t address, bytes;
  uint32_t rights;
  unsigned* steps;  // taken so far
};

void say_key(Text& t, const MkeyRecord& k) {
  if (!k.indirect()) {
    t.put("region '").put(k.name).put("' [").hex(k.start).put(", ").hex(k.start + k.length);
    t.put(')');
    return;
  }
  t.put("key ").hex(k.key).put(", bound by lcore ").dec(k.lcore).put(" with WQE ").dec(k.wqe);
}

const char* right_name(uint32_t missing) noexcept {
  if ((missing & prm::mkey::atomic) != 0) return "atomics";
  if ((missing & prm::mkey::remote_write) != 0) return "remote writing";
  if ((missing & prm::mkey::remote_read) != 0) return "remote reading";
  if ((missing & prm::mkey::local_write) != 0) return "local writing";
  return "local reading";
}

// Which objection the key itself has; false: none.
bool key_objects(Text& t, const MkeyRecord* k, const Range& r) {
  if (k == nullptr) {
    t.put("nobody knows key ").hex(r.key);
    return true;
  }
  if (k->key != r.key) {
    t.put("key ").hex(r.key).put(" is stale: it is ").hex(k->key).put(" now, the tag has changed");
    return true;
  }
  if (k->free) {
    t.put("key ").hex(r.key).put(" is free: it was invalidated and shows nothing");
    return true;
  }
  if (const uint32_t missing = r.rights & ~k->access; missing != 0) {
    say_key(t, *k);
    t.put(" does not allow ").put(right_name(missing));
    return true;
  }
  return false;
}

uint32_t inner(uint32_t rights) noexcept {
  const bool writes =
      (rights & (prm::mkey::local_write | prm::mkey::remote_write | prm::mkey::atomic)) != 0;
  return writes ? prm::mkey::local_write : prm::mkey::local_read;
}

bool explain_range(Text& t, const MkeyBook& book, const Range& r, unsigned depth);

bool too_many(Text& t) {
  t.put("more entries than can be followed");
  return true;
}

uint64_t entry_bytes(const MkeyEntry& e) noexcept {
  return e.bytes == 0 && e.key != 0 ? uint64_t{prm::umr::max_piece_bytes} : e.bytes;
}

void say_entry(Text& t, const MkeyRecord& k, std::size_t i, uint64_t repetition) {
  t.put("entry ").dec(i);
  if (k.repeat != 1) t.put(", repetition ").dec(repetition).put(',');
  t.put(" of key ").hex(k.key).put(" (lcore ").dec(k.lcore);
  t.put(", WQE ").dec(k.wqe).put("): ");
}

// The entries of an indirect key, as often as they come; `offset` from its start.
bool explain_entries(Text& t, const MkeyBook& book, const MkeyRecord& k, Range r, unsigned depth) {
  uint64_t round = 0;  // bytes of one repetition
  for (const MkeyEntry& e : k.entries) round += entry_bytes(e);
  uint64_t offset = r.address - k.start;
  const uint64_t end = offset + r.bytes;
  uint64_t repetition = round == 0 ? k.repeat : std::min<uint64_t>(offset / round, k.repeat);
  uint64_t begin = repetition * round;
  for (; repetition < k.repeat && begin < end; repetition++) {
    for (std::size_t i = 0; i < k.entries.size() && begin < end; i++) {
      if (++*r.steps > most_steps) return too_many(t);
      const MkeyEntry& e = k.entries[i];
      const uint64_t bytes = entry_bytes(e);
      if (offset < begin + bytes) {
        const uint64_t into = offset - begin;
        const uint64_t n = std::min(bytes - into, end - offset);
        const uint64_t at = e.address + repetition * e.stride + into;
        Text mark = t;
        say_entry(t, k, i, repetition);
        if (explain_range(t, book, {e.key, at, n, inner(r.rights), r.steps}, depth + 1))
          return true;
        t = mark;
        offset += n;
      }
      begin += bytes;
    }
  }
  if (offset >= end || !k.whole) return false;
  say_key(t, k);
  t.put(" has entries for ").dec(begin).put(" bytes only, ").dec(end - begin);
  t.put(" bytes fewer than asked for");
  return true;
}

// True: the objection has been said.
bool explain_range(Text& t, const MkeyBook& book, const Range& r, unsigned depth) {
  if (++*r.steps > most_steps) return too_many(t);
  if (depth > most_depth) {
    t.put("keys of keys go deeper than ").dec(most_depth);
    return true;
  }
  const MkeyRecord* k = book.find(r.key);
  if (key_objects(t, k, r)) return true;
  if (r.address < k->start) {
    say_key(t, *k);
    t.put(" begins ").dec(k->start - r.address).put(" bytes behind the address");
    return true;
  }
  const uint64_t offset = r.address - k->start;
  if (offset > k->length || r.bytes > k->length - offset) {
    t.dec(r.bytes).put(" bytes at ").hex(r.address).put(" go ");
    t.dec(offset + r.bytes - k->length).put(" bytes past the end of ");
    say_key(t, *k);
    return true;
  }
  return k->indirect() && explain_entries(t, book, *k, r, depth);
}

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

// Local segments one by one; their sum. `said`: one of them is to blame.
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

}  // namespace kilim::diag
