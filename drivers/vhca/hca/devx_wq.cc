// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Work Queue Context". Adapter's lock held.
#include "vhca/hca/devx_wq.hh"

#include "kilim/prm/queue_cmd.hh"

namespace kilim::vhca::commands {

std::optional<WqPlace> find_wq(const Hca& h, const Client& client, In w, uint32_t shift) {
  namespace wq = prm::wq_context;
  constexpr uint64_t record_bytes = 8;
  if (prm::cap_get(w, wq::wq_umem_valid) == 0 || prm::cap_get(w, wq::dbr_umem_valid) == 0)
    return std::nullopt;
  WqPlace place;
  place.umems = {prm::cap_get(w, wq::wq_umem_id), prm::cap_get(w, wq::dbr_umem_id)};
  const uint64_t bytes = uint64_t{1} << (prm::cap_get(w, wq::log_wq_sz) + shift);
  const auto ring =
      h.umems.find(client.sink, {place.umems[0], read<be64>(w, wq::wq_umem_offset).host(), bytes});
  const auto record =
      h.umems.find(client.sink, {place.umems[1], read<be64>(w, wq::dbr_addr).host(), record_bytes});
  if (!ring || !record) return std::nullopt;
  place.ring = *ring;
  place.record = *record;
  return place;
}

bool fill_shared_ring(In w, SrqSpec& s) {
  namespace wq = prm::wq_context;
  const uint32_t type = prm::cap_get(w, wq::wq_type);
  if (type != wq::linked && type != wq::cyclic) return false;
  s.cyclic = type == wq::cyclic;
  s.pd = Pdn{prm::cap_get(w, wq::pd)};
  s.wqes = 1u << prm::cap_get(w, wq::log_wq_sz);
  s.wqe_shift = prm::cap_get(w, wq::log_wq_stride);
  return true;
}

}  // namespace kilim::vhca::commands
