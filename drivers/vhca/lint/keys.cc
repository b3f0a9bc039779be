// SPDX-License-Identifier: BSD-3-Clause
// Lint rules about keys: what a UMR changes, and who uses it meanwhile. A WQE counts as complete
// when a completion of it, or of a later one of its queue, was written before the doorbell of the
// WQE in hand was seen: a client may use a key between reading an entry and giving its place back.
// Adapter's lock held. Never allocates.
#include <algorithm>
#include <cstring>

#include "kilim/prm/data_seg.hh"
#include "kilim/prm/hca_cap.hh"
#include "vhca/lint/lint.hh"
#include "vhca/tpt/mkey.hh"

namespace kilim::vhca::lint {

namespace {

using prm::Opcode;
using prm::lint::Rule;
using Use = LintKey::Use;

using Waits = bool (*)(uint8_t);
namespace ctrl = prm::ctrl;

bool changes_key(Opcode op) noexcept {
  return op == Opcode::umr || op == Opcode::local_inval;
}

// The key of a UMR or an invalidation as it is called afterwards.
LintKey key_after(std::span<const std::byte> wqe, const prm::CtrlSeg& ctrl) noexcept {
  LintKey key{ctrl.imm.host(), Use::change};
  key.frees = prm::ctrl::opcode::get(ctrl) != static_cast<uint8_t>(Opcode::umr);
  if (key.frees || wqe.size() < prm::lint::list_at) return key;
  const auto c = prm::lint::segment_at<prm::UmrCtrlSeg>(wqe, prm::lint::umr_ctrl_at);
  const auto m = prm::lint::segment_at<prm::MkeyContextSeg>(wqe, prm::lint::mkey_at);
  const uint64_t mask = c.mkey_mask.host();
  if ((mask & prm::umr::mask_mkey) != 0) key.key = (key.key & ~0xffu) | prm::mkey::tag::get(m);
  key.frees = (mask & prm::umr::mask_free) != 0 && (m.free & prm::mkey::free) != 0;
  return key;
}

bool only_remote(const LintWqe& w, uint32_t index) noexcept {
  for (uint8_t i = 0; i < w.keys; i++) {
    if (w.key[i].index() == index && w.key[i].use != Use::remote) return false;
  }
  return true;
}

}  // namespace

void LintWqe::add(LintKey named) noexcept {
  for (uint8_t i = 0; i < keys; i++) {
    if (key[i].key == named.key && key[i].use == named.use) return;
  }
  if (keys < most_keys) key[keys++] = named;
}

bool LintWqe::names(uint32_t index, bool change) const noexcept {
  for (uint8_t i = 0; i < keys; i++) {
    if (key[i].index() == index && (key[i].use == LintKey::Use::change) == change) return true;
  }
  return false;
}

bool LintWqe::uses(uint32_t called) const noexcept {
  for (uint8_t i = 0; i < keys; i++) {
    if (key[i].key == called && key[i].use != LintKey::Use::change) return true;
  }
  return false;
}

bool LintWqe::gives(uint32_t called) const noexcept {
  for (uint8_t i = 0; i < keys; i++) {
    if (key[i].key == called && key[i].use == LintKey::Use::change && !key[i].frees) return true;
  }
  return false;
}

// Keys below an indirect one are used with it.
void Lint::add_key(LintWqe& w, uint32_t key, LintKey::Use use, uint32_t depth) const noexcept {
  const tpt::Mkey* m = around_.keys->at(key >> 8);
  if (m == nullptr || m->mode == tpt::KeyMode::direct) return;
  w.add({key, use});
  if (depth == 0) return;
  const uint32_t looked_at = std::min<uint32_t>(m->used, 1024);
  for (uint32_t i = 0; i < looked_at; i++) {
    const uint32_t inner = m->list[i].mkey.host();
    if (inner != 0 && inner >> 8 != key >> 8) add_key(w, inner, use, depth - 1);
  }
}

void Lint::collect_keys(const LintQueue& q, LintWqe& w, Bytes bytes) const noexcept {
  const auto ctrl = prm::lint::segment_at<prm::CtrlSeg>(bytes, 0);
  const auto op = static_cast<Opcode>(prm::ctrl::opcode::get(ctrl));
  bytes = bytes.first(std::min<std::size_t>(bytes.size(), prm::ctrl::ds::get(ctrl) * 16));
  const uint32_t depth = around_.profile->max_indirection;
  if (changes_key(op)) {
    w.add(key_after(bytes, ctrl));
    if (op == Opcode::umr && bytes.size() == prm::lint::list_at + sizeof(prm::DataSeg))
      add_key(w, prm::lint::segment_at<prm::DataSeg>(bytes, bytes.size() - 16).lkey.host(),
              Use::local, depth);
    return;
  }
  const prm::lint::QueueKind kind = queue_kind(q.qp->type);
  const auto head = prm::lint::head_of(op);
  if (!head.data) return;
  w.answers = head.answer;
  const std::size_t remote = prm::lint::remote_at(bytes, kind);
  if (head.remote && q.qp->loopback)
    add_key(w, prm::lint::segment_at<prm::RaddrSeg>(bytes, remote).rkey.host(), Use::remote, depth);
  wq::DataList data;
  if (!wq::decode_data(bytes, prm::lint::data_at(bytes, op, kind), data)) return;
  for (const tpt::Segment& s : std::span(data.segments).first(data.count)) {
    if (!s.immediate) add_key(w, s.key, Use::local, depth);
  }
}

// A use behind a change that is not complete.
bool Lint::judge_use(const Place& user, LintKey k, const Place& change, Finding& f) const noexcept {
  LintQueue& other = change.q;
  if (&other == &user.q) {
    if (other.fenced(change.w.at, user.w.at, ctrl::waits_for_local)) return false;
    f = {Rule::unfenced_key, {k.key, change.w.at & 0xffff, user.w.fence}};
    return true;
  }
  // Who uses the tag of before, or a key that is invalidated, gets what was shown before or a
  // refusal: nothing to wait for.
  if (k.use != Use::change && !change.w.gives(k.key)) return false;
  if (k.use == Use::remote && peer_may_know(other, change.w)) return false;
  f = {Rule::early_key, {k.key, change.w.at & 0xffff, other.qp->qpn.value()}};
  return true;
}

// A change while a use is not complete.
bool Lint::judge_change(const Place& change, LintKey k, const Place& user,
                        Finding& f) const noexcept {
  const bool same = &user.q == &change.q;
  // A READ has ended with its answer; what has been sent may have to go out again.
  const Waits waits = user.w.answers ? ctrl::waits_for_answers : ctrl::waits_for_all;
  if (same && user.q.fenced(user.w.at, change.w.at, waits)) return false;
  // Who is accessed hears from its peer that the access is over, not from a completion.
  // Or it knows a tag that goes: it gets what was shown before, or a refusal.
  const bool goes = k.frees || !user.w.uses(k.key);
  if (!same && only_remote(user.w, k.index()) && (goes || user.q.executed(user.w))) return false;
  f = {Rule::key_in_flight, {k.key, user.w.at & 0xffff, user.q.qp->qpn.value()}};
  return true;
}

void Lint::check_keys(LintQueue& q, LintWqe& w, Bytes bytes) noexcept {
  for (uint8_t i = 0; i < w.keys; i++) {
    const LintKey k = w.key[i];
    Finding finding;
    bool found = false;
    for (const auto& other : queues_) {
      if (found || !other->works()) continue;
      const uint64_t until = other.get() == &q ? w.at : other->announced;
      other->each_open(until, [&](LintWqe& earlier) {
        if (earlier.names(k.index(), true))
          found = judge_use({q, w}, k, {*other, earlier}, finding);
        else if (k.use == Use::change && earlier.names(k.index(), false))
          found = judge_change({q, w}, k, {*other, earlier}, finding);
        return !found;
      });
    }
    if (!found && k.use == Use::change) found = find_peer_use(k, finding);
    if (found) report(q, w, bytes, finding);
  }
  check_behind(q, w, bytes);
}

// The first request behind a UMR waits for it, whatever it names: who hears of the key by it need
// not be this queue. Nobody hears of a key that shows nothing.
void Lint::check_behind(LintQueue& q, LintWqe& w, Bytes bytes) noexcept {
  const auto c = prm::lint::segment_at<prm::CtrlSeg>(bytes, 0);
  const auto op = static_cast<Opcode>(ctrl::opcode::get(c));
  if (ctrl::waits_for_local(ctrl::fence_of(c.fm_ce_se)) || q.bare < q.completed)
    q.bare = LintQueue::nowhere;
  if (!changes_key(op) && op != Opcode::nop && q.bare != LintQueue::nowhere) {
    if (!w.refused || w.rule != Rule::unfenced_key)
      report(q, w, bytes, {Rule::unfenced_umr, {q.bare & 0xffff, q.bare_key, w.fence}});
    q.bare = LintQueue::nowhere;
  }
  const bool shows = changes_key(op) && w.keys != 0 && !w.key[0].frees;
  if (!shows && op != Opcode::set_psv) return;
  if (shows) q.bare_key = w.key[0].key;
  q.bare = w.at;
}

}  // namespace kilim::vhca::lint
