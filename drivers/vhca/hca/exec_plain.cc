// SPDX-License-Identifier: BSD-3-Clause
// Plain requests, one after the other: WQE in, keys, bytes, completion out. Whatever can change
// only between two turns of the engine is asked once for all of them. Adapter's lock held. Never
// allocates; a WQE is untrusted.
#include "vhca/hca/exec_plain.hh"

#include <algorithm>

#include "kilim/base/units.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/doorbell.hh"
#include "vhca/hca/dma.hh"
#include "vhca/hca/dma_inline.hh"
#include "vhca/hca/journal.hh"
#include "vhca/transport/requester.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca {

namespace {

using prm::Opcode;

// Longer ones gain nothing here.
constexpr uint64_t longest = 4096;

// The WQE of a plain request in host order: control, remote address and one data segment. The rest
// of its basic block means nothing.
struct PlainWqe {
  uint64_t head;  // opcode, index, queue, ds: known before it is read
  uint64_t remote, local;
  uint64_t bytes;
  uint32_t rkey, lkey;
  uint32_t fm_ce_se;

  [[nodiscard]] bool signaled() const noexcept {
    return (fm_ce_se & prm::ctrl::completion_mask) == prm::ctrl::cq_update;
  }
};
constexpr unsigned plain_ds = 3;
constexpr uint64_t next_index = uint64_t{1} << 40;  // in `head`

[[gnu::always_inline]] inline PlainWqe take_wqe(uint64_t at) noexcept {
  const dma::PlainWords w = dma::take_plain(at);
  const uint64_t length_and_key = be64::from_raw(w.length_and_key).host();
  PlainWqe wqe;
  wqe.head = be64::from_raw(w.head).host();
  wqe.remote = be64::from_raw(w.remote).host();
  wqe.local = be64::from_raw(w.local).host();
  wqe.bytes = length_and_key >> 32;
  wqe.rkey = be32::from_raw(w.remote_key).host();
  wqe.lkey = static_cast<uint32_t>(length_and_key);
  wqe.fm_ce_se = w.fm_ce_se;
  return wqe;
}

// A kind of plain request, and what it needs of the keys at both ends.
struct Kind {
  Opcode opcode;
  uint8_t local, remote;
  bool answered;  // bytes come back, and are counted in the completion
};
constexpr Kind plain_write = {Opcode::rdma_write, prm::mkey::local_read, prm::mkey::remote_write,
                              false};
constexpr Kind plain_read = {Opcode::rdma_read, prm::mkey::local_write, prm::mkey::remote_read,
                             true};

bool completes_plainly(const Cq& cq) noexcept {
  return !cq.error && !cq.armed && cq.spec.cqe_bytes == sizeof(prm::Cqe) && !cq.spec.time_of_day;
}

bool may_run(const HcaState& h, const Qp& qp) noexcept {
  const bool connected = qp.type == QpType::rc || qp.type == QpType::uc;
  const bool fresh = !qp.retrying && qp.stalls == 0 && qp.timeouts == 0;
  return h.executing && h.config.fatal_at == 0 && !h.works.journal->on() && connected && !qp.rc &&
         qp.state == QpState::rts && qp.lint == nullptr && fresh && completes_plainly(*qp.send_cq);
}

bool admits(const Qp& qp, const Qp& peer, const Kind& kind) noexcept {
  if (peer.state == QpState::rtr && !peer.established) return false;
  if (!kind.answered) return (peer.attr.access & access::remote_write) != 0;
  return qp.type == QpType::rc && qp.spec.scatter_answers == 0 && qp.attr.max_rd_atomic != 0 &&
         (peer.attr.access & access::remote_read) != 0 && peer.attr.max_dest_rd_atomic != 0;
}

// The completions of one run, up to the end of their ring: what the entries have in common is made
// once.
class Entries {
 public:
  Entries(const Works& works, const Qp& qp, Opcode opcode) noexcept
      : begin_(place(*qp.send_cq)),
        at_(begin_),
        uidx_(be32{qp.spec.uidx}),
        stamp_(be64{works.now_ns}),
        last_(last_word(qp, opcode)) {}

  // False: the memory of the completion queue is gone; this entry is not counted.
  [[gnu::always_inline]] bool give(uint32_t bytes) noexcept {
    const __m128i second =
        _mm_set_epi32(static_cast<int>(be32{bytes}.raw()), 0, 0, static_cast<int>(uidx_.raw()));
    if (!dma::give_64(at_, second, stamp_.raw(), be64{last_}.raw())) return false;
    at_ += sizeof(prm::Cqe);
    return true;
  }
  // The next ones are of the next WQE.
  [[gnu::always_inline]] void next_wqe() noexcept { last_ += 1u << 16; }
  // How many were given.
  [[nodiscard]] uint32_t given() const noexcept {
    return static_cast<uint32_t>((at_ - begin_) / sizeof(prm::Cqe));
  }

 private:
  static uint64_t place(const Cq& cq) noexcept {
    return cq.spec.buf.value() + uint64_t{cq.producer & (cq.spec.cqe_count - 1)} * sizeof(prm::Cqe);
  }
  // The last eight bytes of an entry: opcode, queue, index of the WQE, owner.
  static uint64_t last_word(const Qp& qp, Opcode opcode) noexcept {
    const bool owner = (qp.send_cq->producer & qp.send_cq->spec.cqe_count) != 0;
    const uint32_t first = prm::cqe::wqe_opcode::at(static_cast<uint8_t>(opcode)) | qp.qpn.value();
    return uint64_t{first} << 32 | uint32_t{qp.sq.ci} << 16 |
           prm::cqe::op_own(prm::CqeOpcode::req, false, owner);
  }

  const uint64_t begin_;
  uint64_t at_;
  const be32 uidx_;
  const be64 stamp_;
  uint64_t last_;  // in host order
};

[[gnu::always_inline]] inline bool copy(uint64_t to, uint64_t from, uint64_t bytes) noexcept {
  if (bytes - 32 <= 32) [[likely]]
    return dma::move_32_to_64(to, from, bytes);
  return dma::copy(Va{to}, Va{from}, bytes);
}

// What is remembered of the keys at both ends is of these ends, or forgotten.
void recall(const HcaState& h, Qp& qp, const Qp& peer) noexcept {
  KeyMemos& m = qp.memos;
  const bool good = m.generation == h.keys.generation() && m.peer_qpn == peer.qpn.value() &&
                    m.peer_pd == peer.spec.pd;
  if (!good) m = {h.keys.generation(), peer.spec.pd, peer.qpn.value(), {}, {}};
}

// Other keys than those remembered. False: they are not plain.
[[gnu::noinline]] bool learn(const HcaState& h, Qp& qp, const Qp& peer, uint32_t lkey,
                             uint32_t rkey) noexcept {
  KeyMemos& m = qp.memos;
  if (m.local.key != lkey && !remember_key(h.keys, lkey, {qp.spec.pd, qp.qpn.value()}, m.local))
    return false;
  return m.remote.key == rkey ||
         remember_key(h.keys, rkey, {peer.spec.pd, peer.qpn.value()}, m.remote);
}

// Up to offset `safe` the longest request fits.
[[gnu::always_inline]] inline bool fits(const KeyMemo& key, uint64_t safe, uint64_t offset,
                                        uint64_t bytes) noexcept {
  if (offset <= safe) [[likely]]
    return true;
  return key.holds(offset, bytes);
}

// A run over the ring: `most` WQEs at most. Returns how many.
template <const Kind& kind>
[[gnu::noinline]] std::size_t run_kind(HcaState& h, Qp& qp, const Qp& peer,
                                       std::size_t most) noexcept {
  KeyMemos& keys = qp.memos;
  keys.prepare(kind.local, kind.remote, longest);
  Entries entries(h.works, qp, kind.opcode);
  const uint64_t ring = qp.sq.base + uint64_t{qp.sq.ci & (qp.sq.wqebbs - 1)} * wqebb_bytes;
  const uint64_t end = ring + most * wqebb_bytes;
  uint64_t head = uint64_t{qp.sq.ci} << 40 | uint64_t{static_cast<uint8_t>(kind.opcode)} << 32 |
                  uint64_t{qp.qpn.value()} << 8 | plain_ds;
  uint64_t at = ring;
  uint32_t lost = 0;  // bytes of the request whose completion could not be given
  bool gone = false;
  for (; at != end; at += wqebb_bytes) {
    const PlainWqe w = take_wqe(at);
    if (w.head != head) [[unlikely]]
      break;
    if (w.lkey != keys.local.key || w.rkey != keys.remote.key) [[unlikely]] {
      if (!learn(h, qp, peer, w.lkey, w.rkey)) break;
      keys.prepare(kind.local, kind.remote, longest);
    }
    // A length of 0 stands for 2 GiB, the highest bit for inline data: neither is plain.
    if (w.bytes - 1 >= keys.longest) [[unlikely]]
      break;
    const uint64_t mine = w.local - keys.local.start, theirs = w.remote - keys.remote.start;
    if (!fits(keys.local, keys.local_offset, mine, w.bytes)) break;
    if (!fits(keys.remote, keys.remote_offset, theirs, w.bytes)) break;
    const uint64_t here = mine + keys.local.va, there = theirs + keys.remote.va;
    if (!copy(kind.answered ? here : there, kind.answered ? there : here, w.bytes)) break;
    const uint32_t bytes = kind.answered ? static_cast<uint32_t>(w.bytes) : 0;
    if (w.signaled()) [[likely]] {
      if (!entries.give(bytes)) {
        at += wqebb_bytes;
        lost = bytes;
        gone = true;
        break;
      }
    }
    head += next_index;
    entries.next_wqe();
  }
  const std::size_t done = (at - ring) / wqebb_bytes;
  const auto last = static_cast<uint16_t>(qp.sq.ci + done - 1);
  qp.sq.ci = static_cast<uint16_t>(qp.sq.ci + done);
  Cq& cq = *qp.send_cq;
  cq.producer = (cq.producer + entries.given()) & prm::arm::index_mask;
  h.works.journal->plain(done, entries.given());
  h.work_since_clock += done * plain_work;
  // The general way finds out what to do about it.
  if (gone && !complete_send(h.works, qp, {static_cast<uint8_t>(kind.opcode), last, lost}))
    fatal_qp(h.works, qp, "the CQ of a send queue is in error");
  return done;
}

}  // namespace

std::size_t run_plain(HcaState& h, Qp& qp, std::size_t budget) noexcept {
  if (!may_run(h, qp)) return 0;
  const Qp* peer = answering_peer(h.qps, qp);
  if (peer == nullptr) return 0;
  const uint32_t place = qp.sq.ci & (qp.sq.wqebbs - 1);
  const auto posted = static_cast<uint16_t>(qp.sq.pi - qp.sq.ci);
  const std::size_t most =
      std::min<std::size_t>({budget, posted, qp.sq.wqebbs - place, straight_room(*qp.send_cq)});
  uint32_t word = 0;
  if (!dma::load(Va{qp.sq.base + uint64_t{place} * wqebb_bytes}, word)) return 0;
  const auto opcode = static_cast<Opcode>(prm::ctrl::opcode::of(be32::from_raw(word).host()));
  if (opcode == plain_write.opcode && admits(qp, *peer, plain_write)) {
    recall(h, qp, *peer);
    return run_kind<plain_write>(h, qp, *peer, most);
  }
  if (opcode == plain_read.opcode && admits(qp, *peer, plain_read)) {
    recall(h, qp, *peer);
    return run_kind<plain_read>(h, qp, *peer, most);
  }
  return 0;
}

}  // namespace kilim::vhca
