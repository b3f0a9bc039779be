// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_RQT", "DESTROY_RQT", "CREATE_TIR", "DESTROY_TIR". Adapter's lock held.
#include <bit>
#include <cerrno>

#include "vhca/core/refusal.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/ethernet/lro.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::hca {

namespace {

constexpr uint8_t address_fields = hash_field::src_ip | hash_field::dst_ip;
constexpr uint8_t port_fields = hash_field::src_port | hash_field::dst_port;

// Null: nothing to object to.
const char* objection(const Hca& h, const TirSpec& s) noexcept {
  const ethernet::Rqt* table = h.rqts.at(s.rqt);
  if (table == nullptr) return "no such table";
  if ((s.fields & ~(address_fields | port_fields)) != 0) return "unknown fields";
  if ((s.ip_version != 0) != ((s.fields & address_fields) != 0)) return "addresses of no kind";
  if ((s.l4_protocol != 0) != ((s.fields & port_fields) != 0)) return "ports of no kind";
  if (s.fields == 0 && table->queues.size() != 1) return "nothing to choose a place by";
  return nullptr;
}

Result<std::vector<wq::Qp*>> find_queues(const Hca& h, std::span<const uint32_t> rqns) {
  if (!std::has_single_bit(rqns.size()) || rqns.size() > std::size_t{1}
                                                             << h.config.profile.log_max_rqt_size)
    return Error{EINVAL, "size of a table"};
  std::vector<wq::Qp*> queues;
  for (uint32_t rqn : rqns) {
    queues.push_back(h.rqs.at(rqn));
    if (queues.back() == nullptr) return Error{EINVAL, "no such receive queue"};
  }
  return queues;
}

// Without a hash there is one place.
bool some_tir_wants_one(const Hca& h, uint32_t rqtn) {
  bool one = false;
  h.tirs.for_each([&](const ethernet::Tir& t) { one |= t.spec.rqt == rqtn && t.spec.fields == 0; });
  return one;
}

}  // namespace

Result<uint32_t> create_rqt(Hca& h, std::span<const uint32_t> rqns, const EventSink* open) {
  Result<std::vector<wq::Qp*>> queues = find_queues(h, rqns);
  if (!queues) return queues.error();
  uint32_t number = 0;
  ethernet::Rqt* table = h.rqts.create(number);
  if (table == nullptr) return Error{ENOMEM, "the adapter has no more tables"};
  table->number = number;
  table->open = open;
  table->queues = *std::move(queues);
  for (wq::Qp* rq : table->queues) rq->places++;
  return number;
}

int modify_rqt(Hca& h, uint32_t rqtn, std::span<const uint32_t> rqns) {
  ethernet::Rqt* table = h.rqts.at(rqtn);
  Result<std::vector<wq::Qp*>> queues = find_queues(h, rqns);
  if (table == nullptr) return refusal::absent("rqtn", rqtn);
  if (!queues) return refusal::of(queues.error());
  if (queues->size() != 1 && some_tir_wants_one(h, rqtn))
    return refusal::equal("rqtc.rqt_actual_size", queues->size(), 1);
  for (wq::Qp* rq : *queues) rq->places++;
  for (wq::Qp* rq : table->queues) rq->places--;
  table->queues = *std::move(queues);
  return 0;
}

int destroy_rqt(Hca& h, uint32_t rqtn) {
  ethernet::Rqt* table = h.rqts.at(rqtn);
  if (table == nullptr) return refusal::absent("rqtn", rqtn);
  if (table->users != 0) return refusal::busy("the table of receive queues", table->users);
  for (wq::Qp* rq : table->queues) rq->places--;
  h.rqts.destroy(rqtn);
  return 0;
}

Result<uint32_t> create_tir(Hca& h, const TirSpec& s, EventSink* sink) {
  if (const char* why = objection(h, s)) return Error{EINVAL, why};
  uint32_t number = 0;
  ethernet::Tir* tir = h.tirs.create(number);
  if (tir == nullptr) return Error{ENOMEM, "the adapter has no more TIRs"};
  tir->number = number;
  tir->spec = s;
  tir->toeplitz = ethernet::Toeplitz(s.key);
  tir->table = h.rqts.at(s.rqt);
  tir->table->users++;
  tir->end.type = tir->end.spec.type = QpType::raw_packet;
  tir->end.spec.own_unicast = s.own_unicast;
  tir->end.spec.own_multicast = s.own_multicast;
  tir->end.sink = sink;
  tir->end.tir = tir;
  if (s.own_unicast || s.own_multicast) h.eth.own_queues++;
  if (s.lro_versions != 0) ethernet::eth_use_large(h.eth);
  return number;
}

Result<uint32_t> create_qp_tir(Hca& h, Qpn qpn) {
  wq::Qp* qp = h.qps.at(qpn.value());
  if (qp == nullptr) return Error{EINVAL, "no such queue pair"};
  uint32_t rqtn = 0;
  ethernet::Rqt* table = h.rqts.create(rqtn);
  if (table == nullptr) return Error{ENOMEM, "the adapter has no more tables"};
  table->number = rqtn;
  table->queues = {qp};
  qp->places++;
  TirSpec spec;
  spec.rqt = rqtn;
  spec.own_unicast = qp->spec.own_unicast;
  spec.own_multicast = qp->spec.own_multicast;
  spec.tunnels = qp->spec.tunnels;
  Result<uint32_t> tirn = create_tir(h, spec, qp->sink);
  if (!tirn) (void)destroy_rqt(h, rqtn);
  return tirn;
}

int destroy_qp_tir(Hca& h, uint32_t tirn) {
  const ethernet::Tir* tir = h.tirs.at(tirn);
  if (tir == nullptr) return refusal::absent("tirn", tirn);
  const uint32_t rqtn = tir->spec.rqt;
  if (int rc = destroy_tir(h, tirn); rc != 0) return rc;
  return destroy_rqt(h, rqtn);
}

int modify_tir(Hca& h, uint32_t tirn, const TirSpec& s) {
  ethernet::Tir* tir = h.tirs.at(tirn);
  if (tir == nullptr) return refusal::absent("tirn", tirn);
  if (const char* why = objection(h, s)) return refusal::text(EINVAL, why);
  ethernet::eth_deliver_kept(h.eth, tir->end);
  if (s.lro_versions != 0) ethernet::eth_use_large(h.eth);
  ethernet::Rqt* table = h.rqts.at(s.rqt);
  table->users++;
  tir->table->users--;
  tir->table = table;
  tir->spec.rqt = s.rqt;
  tir->spec.inner = s.inner;
  tir->spec.lro_versions = s.lro_versions;
  tir->spec.lro_bytes = s.lro_bytes;
  tir->spec.lro_timeout_us = s.lro_timeout_us;
  tir->spec.lro_min_mss = s.lro_min_mss;
  tir->spec.fields = s.fields;
  tir->spec.ip_version = s.ip_version;
  tir->spec.l4_protocol = s.l4_protocol;
  tir->spec.key = s.key;
  tir->toeplitz = ethernet::Toeplitz(s.key);
  return 0;
}

int destroy_tir(Hca& h, uint32_t tirn) {
  ethernet::Tir* tir = h.tirs.at(tirn);
  if (tir == nullptr) return refusal::absent("tirn", tirn);
  if (int rc = ethernet::eth_detach_qp(h.eth, tir->end); rc != 0) return rc;
  ethernet::eth_deliver_kept(h.eth, tir->end);
  if (tir->spec.own_unicast || tir->spec.own_multicast) h.eth.own_queues--;
  tir->table->users--;
  h.tirs.destroy(tirn);
  return 0;
}

}  // namespace kilim::vhca::hca
