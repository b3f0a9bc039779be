// SPDX-License-Identifier: BSD-3-Clause
// Why a send request of this process fails: its own memory, what its peer says, or that nobody
// answers. The WQE is untrusted. Adapter's lock held. Never allocates.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/lint.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/syndrome.hh"
#include "vhca/explain/explainer.hh"

namespace kilim::vhca::explain {

namespace {

using prm::Opcode;
using prm::Syndrome;

prm::lint::QueueKind kind_of_queue(QpType type) noexcept {
  switch (type) {
    case QpType::ud:
      return prm::lint::QueueKind::datagram;
    case QpType::xrc_ini:
      return prm::lint::QueueKind::xrc;
    case QpType::raw_packet:
      return prm::lint::QueueKind::raw_packet;
    case QpType::dci:
      return prm::lint::QueueKind::dynamic;
    default:
      return prm::lint::QueueKind::connected;
  }
}

std::span<const std::byte> bytes_of(const wq::SendWqe& wqe) noexcept {
  const std::size_t n = std::size_t{wqe.ds} * octoword_bytes;
  return std::span(wqe.bytes).first(std::min(n, wqe.bytes.size()));
}

bool is_answered(Opcode op) noexcept {
  return op == Opcode::rdma_read || op == Opcode::atomic_cs || op == Opcode::atomic_fa;
}

void put_gid(prm::Text& t, const Gid& gid) noexcept {
  for (std::size_t i = 0; i < gid.size(); i += 2) {
    constexpr char digits[] = "0123456789abcdef";
    if (i != 0) t.put(':');
    for (const uint8_t b : {gid[i], gid[i + 1]}) t.put(digits[b >> 4]).put(digits[b & 15]);
  }
}

// Finds the address and key at the peer; false: the WQE names none.
bool find_remote(const wq::Qp& qp, const wq::SendWqe& wqe, prm::RaddrSeg& r) noexcept {
  const auto op = static_cast<Opcode>(wqe.opcode);
  if (!is_answered(op) && op != Opcode::rdma_write && op != Opcode::rdma_write_imm) return false;
  const auto bytes = bytes_of(wqe);
  const std::size_t at = prm::lint::remote_at(bytes, kind_of_queue(qp.type));
  if (at + sizeof(r) > bytes.size()) return false;
  std::memcpy(&r, bytes.data() + at, sizeof(r));
  return true;
}

bool find_data(const wq::Qp& qp, const wq::SendWqe& wqe, wq::DataList& data) noexcept {
  const std::size_t at =
      prm::lint::data_at(bytes_of(wqe), static_cast<Opcode>(wqe.opcode), kind_of_queue(qp.type));
  return at >= 16 && at <= bytes_of(wqe).size() && wq::decode_data(wqe.body(), at - 16, data);
}

}  // namespace

bool Explainer::put_own_memory(prm::Text& t, const wq::Qp& qp, const wq::SendWqe& wqe,
                               About& about) noexcept {
  wq::DataList data;
  if (!find_data(qp, wqe, data)) return false;
  const bool written = is_answered(static_cast<Opcode>(wqe.opcode));
  const auto right = static_cast<uint8_t>(written ? prm::mkey::local_write : prm::mkey::local_read);
  return put_list(t, {{data.segments.data(), data.count}, {qp.spec.pd, qp.qpn.value(), right}},
                  data.total, about);
}

void Explainer::put_remote(prm::Text& t, const wq::Qp& qp, const wq::SendWqe& wqe, const Verdict& v,
                           About& about) noexcept {
  prm::RaddrSeg r;
  if (find_remote(qp, wqe, r)) {
    wq::DataList data;
    about.key = r.rkey.host();
    about.at = r.raddr.host();
    about.bytes = find_data(qp, wqe, data) ? data.total : 0;
    t.put("it asks rkey ").hex(about.key).put(" of its peer for ");
    put_range(t, about.at, about.bytes);
    t.put("; ");
  }
  t.put("queue ").hex(qp.attr.dest_qpn.value()).put(" refused it: ").put(v.why);
  t.put(qp.loopback ? "; that queue's own sentence says why"
                    : "; the process of that queue says why, if it runs with --explain");
}

// A peer on the same device: what keeps it from answering. False: nothing that is seen here.
bool Explainer::put_loopback_peer(prm::Text& t, const wq::Qp& qp) noexcept {
  const uint32_t number = qp.attr.dest_qpn.value();
  const wq::Qp* peer = around_.qps->at(number);
  if (!qp.loopback) return false;
  t.put("the path leads to this device and its queue ").hex(number);
  if (peer == nullptr) {
    t.put(", which does not exist: was it destroyed, or dest_qp_num a wrong number?");
  } else if (peer->state == QpState::reset || peer->state == QpState::init ||
             peer->state == QpState::err) {
    t.put(", which is in state ").put(name_of(peer->state)).put(": it answers from RTR on");
  } else if (peer->attr.dest_qpn != qp.qpn) {
    t.put(", which is connected to queue ").hex(peer->attr.dest_qpn.value()).put(", not to this");
  } else {
    t.put(", which is of another transport, or has another path");
  }
  return true;
}

void Explainer::put_no_answer(prm::Text& t, const wq::Qp& qp) noexcept {
  if (put_loopback_peer(t, qp)) return;
  t.put("nothing acknowledged it: queue ").hex(qp.attr.dest_qpn.value()).put(" at GID ");
  put_gid(t, qp.attr.path.dgid);
  if (!qp.rc) {
    t.put(", which is no GID of this device, and its port has no wire");
    return;
  }
  t.put(" is silent after ").dec(qp.attr.retry_cnt).put(" retries (retry_cnt) of ");
  t.dec((uint64_t{4096} << (qp.attr.timeout & 31)) / 1000).put(" us at least (timeout ");
  t.dec(qp.attr.timeout).put("), from PSN ").hex(qp.rc->una_psn);
  t.put(" on: is that process alive, on the same wire, its queue in RTR, its rq_psn that?");
}

// UMR, bind, LOCAL_INV: the key that it changes.
void Explainer::put_changed_key(prm::Text& t, const wq::Qp& qp, const wq::SendWqe& wqe,
                                const Verdict& v, About& about) noexcept {
  about.key = be32::from_raw(wqe.imm_raw).host();
  t.put(v.why).put("; it changes key ").hex(about.key);
  const tpt::Mkey* m = around_.keys->at(about.key >> 8);
  const FreedKeys::Row* freed = freed_.find(about.key >> 8);
  if (m == nullptr) {
    t.put(freed != nullptr ? ", which was destroyed" : ", which does not exist");
    return;
  }
  t.put(", which is ").put(m->free ? "free" : "valid").put(", called ").hex(m->key);
  t.put(m->umr_enabled ? "" : ", and a region, which no work request changes");
  if (m->pd != qp.spec.pd) t.put(", of another protection domain");
  if (const KeyHistory::Row* row = history_.find(about.key >> 8))
    put_last_change(t, *row, *around_.now_ns);
}

void Explainer::put_send_cause(prm::Text& t, const wq::Qp& qp, const wq::SendWqe& wqe,
                               const Verdict& v, About& about) noexcept {
  switch (v.syndrome) {
    case Syndrome::local_prot:
    case Syndrome::local_access:
      if (!put_own_memory(t, qp, wqe, about)) t.put(v.why);
      return;
    case Syndrome::mw_bind:
      return put_changed_key(t, qp, wqe, v, about);
    case Syndrome::remote_access:
    case Syndrome::remote_inval_req:
    case Syndrome::remote_op:
      return put_remote(t, qp, wqe, v, about);
    case Syndrome::transport_retry_exc:
      return put_no_answer(t, qp);
    case Syndrome::rnr_retry_exc:
      t.put("queue ").hex(qp.attr.dest_qpn.value()).put(" had no receive request posted, ");
      t.dec(qp.attr.rnr_retry).put(" retries later neither (rnr_retry; 7 waits for ever)");
      return;
    default:
      t.put(v.why);
      return;
  }
}

void Explainer::send_fails(const wq::Qp& qp, const wq::SendWqe& wqe, const Verdict& v) noexcept {
  const uint32_t number = qp.qpn.value();
  if (v.syndrome == Syndrome::wr_flush) return is_flushed(qp, true, wqe.index);
  const bool news = told_.is_news(number, true, v.why);
  std::array<char, 1200> buffer;
  prm::Text t{buffer};
  About about{number, wqe.index};
  const char* name = prm::opcode_name(wqe.opcode);
  t.put("queue ").hex(number).put(", WQE ").dec(wqe.index).put(" (");
  t.put(name != nullptr ? name : "no opcode").put("): ").put(prm::verbs_name(v.syndrome)).put(": ");
  put_send_cause(t, qp, wqe, v, about);
  tell(about, news, t.view());
}

}  // namespace kilim::vhca::explain
