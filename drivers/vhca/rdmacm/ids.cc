// SPDX-License-Identifier: BSD-3-Clause
// Ids: made, found, destroyed. All locks held.
#include <algorithm>
#include <cerrno>

#include "vhca/core/refusal.hh"
#include "vhca/hca/connections.hh"
#include "vhca/rdmacm/cm_file.hh"
#include "vhca/rdmacm/state.hh"
#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

namespace {

// librdmacm keeps its ids in an array of as many (rdma-core, librdmacm/indexer.h, IDX_MAX_INDEX).
constexpr uint32_t most_ids = 0x10000;
constexpr uint32_t psn_mask = 0xffffff;

// The lowest that is free, as the kernel's xa_alloc() gives them.
template <typename Map>
std::optional<uint32_t> free_number(const Map& map) {
  uint32_t number = 0;
  for (const auto& entry : map) {
    if (entry.first != number) break;
    number++;
  }
  return number < most_ids ? std::optional(number) : std::nullopt;
}

// ucma_cleanup_ctx_events(): requests that nobody has read go with their listener.
void drop_events(State& s, Id& id) {
  std::vector<Id*> requests;
  std::erase_if(id.file->events, [&](const Event& e) {
    if (e.id != &id && e.request != &id) return false;
    if (e.id == &id && e.request != nullptr) requests.push_back(e.request);
    return true;
  });
  for (Id* request : requests) destroy_id(s, *request);
}

}  // namespace

Id* make_id(State& s, File& file, uint64_t uid, rdma_ucm_port_space space, CmQpType type) {
  const std::optional<uint32_t> number = free_number(s.ids);
  if (!number) return nullptr;
  auto made = std::make_unique<Id>();
  Id& id = *made;
  id.number = *number;
  id.file = &file;
  id.uid = uid;
  id.space = space;
  id.qp_type = type;
  id.starting_psn = random_number(s) & psn_mask;  // cma.c, __rdma_create_id()
  s.ids.emplace(*number, std::move(made));
  return &id;
}

uint32_t destroy_id(State& s, Id& id) {
  stop_listening(id);
  if (id.adapter != nullptr && id.comm.value() != 0) {
    if (auto agent = hca::connection_agent(id.adapter->hca, 1))
      (*agent)->destroy(id.comm, clock_ns());
  }
  drop_events(s, id);
  give_port(s, id);
  for (const Multicast& group : id.groups) s.groups.erase(group.number);
  const uint32_t reported = id.events_reported;
  s.ids.erase(id.number);
  return reported;
}

Id* find_id(State& s, const File& file, uint32_t number, int& error) noexcept {
  const auto at = s.ids.find(number);
  error = 0;
  if (at == s.ids.end())
    error = refusal::absent("the id", number, ENOENT);
  else if (at->second->file != &file)
    error = refusal::absent("the id", number);
  return error == 0 ? at->second.get() : nullptr;
}

void destroy_all(State& s, File& file) {
  for (;;) {
    const auto at = std::find_if(s.ids.begin(), s.ids.end(),
                                 [&](const auto& entry) { return entry.second->file == &file; });
    if (at == s.ids.end()) return;
    destroy_id(s, *at->second);
  }
}

void end_all() noexcept {
  if (first_adapter() == nullptr || !is_own_process()) return;
  TryLocked state;
  while (state && !(*state).ids.empty()) destroy_id(*state, *(*state).ids.begin()->second);
}

}  // namespace kilim::vhca::rdmacm
