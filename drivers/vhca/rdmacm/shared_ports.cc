// SPDX-License-Identifier: BSD-3-Clause
// Notes of ports: made and read.
#include "vhca/rdmacm/shared_ports.hh"

#include <cstring>

#include "vhca/hca/connections.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::rdmacm {

namespace {

// What a note has of each holder.
struct Record {
  Gid address;
  uint16_t family;
  uint8_t any, af_only, reuse;
  uint8_t reserved[3];
};
static_assert(sizeof(Record) == 24);

uint64_t name_of(rdma_ucm_port_space space, uint16_t port) noexcept {
  return uint64_t{space} << 16 | port;
}

// One adapter is enough: members have the same ones.
wire::Wire* members() noexcept {
  wire::Wire* wire = nullptr;
  for (Adapter* a = first_adapter(); a != nullptr; a = a->next) {
    if (a->hidden.load(std::memory_order_relaxed)) continue;
    if (wire::Wire* w = hca::wire_of_members(a->hca)) wire = w;
  }
  return wire;
}

}  // namespace

PortHolder holder_of(const Id& id) noexcept {
  return {gid_of(id.source), id.source.ss_family, id.has_any_source(), id.af_only,
          id.reuse && id.stage != Stage::listen};
}

MembersHeld::MembersHeld() {
  if (wire::Wire* wire = members()) held_ = wire->hold_notes();
}

std::vector<PortHolder> holders_elsewhere(rdma_ucm_port_space space, uint16_t port) {
  std::vector<PortHolder> all;
  wire::Wire* wire = members();
  if (wire == nullptr) return all;
  const std::vector<std::byte> notes = wire->notes_of_others(name_of(space, port));
  for (std::size_t at = 0; at + sizeof(Record) <= notes.size(); at += sizeof(Record)) {
    Record r;
    std::memcpy(&r, notes.data() + at, sizeof(r));
    all.push_back({r.address, r.family, r.any != 0, r.af_only != 0, r.reuse != 0});
  }
  return all;
}

void tell_members(rdma_ucm_port_space space, uint16_t port, std::span<const PortHolder> ours) {
  wire::Wire* wire = members();
  if (wire == nullptr) return;
  std::vector<Record> records;
  for (const PortHolder& h : ours)
    records.push_back({h.address, h.family, h.any, h.af_only, h.reuse, {}});
  wire->leave_note(name_of(space, port), std::as_bytes(std::span(records)));
}

}  // namespace kilim::vhca::rdmacm
