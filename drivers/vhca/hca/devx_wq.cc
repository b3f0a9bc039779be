// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Work Queue Context". Adapter's lock held.
#include "vhca/hca/devx_wq.hh"

#include <bit>

#include "kilim/prm/queue_cmd.hh"

namespace kilim::vhca::hca::commands {

std::optional<WqPlace> find_wq(const Hca& h, const Client& client, In w, uint32_t shift) {
  namespace wq = prm::wq_context;
  constexpr uint64_t record_bytes = 8;
  constexpr FieldRange valid[] = {{"wq.wq_umem_valid", wq::wq_umem_valid, 1, 1},
                                  {"wq.dbr_umem_valid", wq::dbr_umem_valid, 1, 1}};
  if (!lie_within(w, valid)) return std::nullopt;
  WqPlace place;
  place.umems = {prm::cap_get(w, wq::wq_umem_id), prm::cap_get(w, wq::dbr_umem_id)};
  const uint64_t bytes = uint64_t{1} << (prm::cap_get(w, wq::log_wq_sz) + shift);
  const auto ring =
      h.umems.find(client.sink, {place.umems[0], read<be64>(w, wq::wq_umem_offset).host(), bytes});
  const auto record =
      h.umems.find(client.sink, {place.umems[1], read<be64>(w, wq::dbr_addr).host(), record_bytes});
  if (!ring || !record) {
    refusal::absent(ring ? "wq.dbr_umem_id" : "wq.wq_umem_id", place.umems[ring ? 1 : 0]);
    return std::nullopt;
  }
  place.ring = *ring;
  place.record = *record;
  return place;
}

void tell_wq(const Hca& h, Out w, const WqShape& s) {
  namespace wq = prm::wq_context;
  prm::cap_set(w, wq::wq_type, s.type);
  prm::cap_set(w, wq::pd, s.pd);
  prm::cap_set(w, wq::uar_page, s.uar_page);
  prm::cap_set(w, wq::log_wq_stride, s.log_stride);
  prm::cap_set(w, wq::log_wq_sz, static_cast<uint32_t>(std::countr_zero(s.wqes)));
  prm::cap_set(w, wq::lwm, s.lwm);
  const std::span<const uint32_t> umems = h.umems.held(s.user);
  if (umems.size() != 2) return;
  prm::cap_set(w, wq::wq_umem_valid, 1);
  prm::cap_set(w, wq::wq_umem_id, umems[0]);
  put(w, wq::wq_umem_offset, be64{h.umems.offset(umems[0], s.ring)});
  prm::cap_set(w, wq::dbr_umem_valid, 1);
  prm::cap_set(w, wq::dbr_umem_id, umems[1]);
  put(w, wq::dbr_addr, be64{h.umems.offset(umems[1], s.record)});
}

void tell_shared_ring(const Hca& h, Out w, const wq::Srq& srq, uint16_t destroy) {
  namespace wq = prm::wq_context;
  WqShape shape{{destroy, srq.srqn}};
  shape.type = srq.spec.cyclic ? wq::cyclic : wq::linked;
  shape.pd = srq.spec.pd.value();
  shape.wqes = srq.spec.wqes;
  shape.log_stride = srq.spec.wqe_shift;
  shape.lwm = srq.limit;
  shape.ring = srq.spec.buf;
  shape.record = srq.spec.record;
  tell_wq(h, w, shape);
}

bool fill_shared_ring(In w, SrqSpec& s) {
  namespace wq = prm::wq_context;
  const uint32_t type = prm::cap_get(w, wq::wq_type);
  if (type != wq::linked && type != wq::cyclic) {
    refusal::most("wq.wq_type", type, wq::cyclic);
    return false;
  }
  s.cyclic = type == wq::cyclic;
  s.pd = Pdn{prm::cap_get(w, wq::pd)};
  s.wqes = 1u << prm::cap_get(w, wq::log_wq_sz);
  s.wqe_shift = prm::cap_get(w, wq::log_wq_stride);
  return true;
}

}  // namespace kilim::vhca::hca::commands
