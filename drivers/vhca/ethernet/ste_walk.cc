// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Steering Table Entry", format 0. Follows a frame from a table's first entry to where it
// goes: each entry looks at a part of the headers, and says what is done and where the frame goes
// on, by hash, or elsewhere if it is not as asked. rdma-core v44 providers/mlx5/dr_ste.c and
// dr_ste_v0.c say what software means by what it writes. Adapter's lock held.
#include <array>
#include <bit>
#include <cstring>

#include "kilim/prm/ste.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/ethernet/ste_action.hh"
#include "vhca/ethernet/ste_lookup.hh"
#include "vhca/ethernet/tir.hh"

namespace kilim::vhca::ethernet {

namespace ste = prm::ste;

class SteWalk {
 public:
  SteWalk(SoftSteering& s, TableType type, uint32_t source) noexcept
      : s_(s),
        scratch_(s.scratch_[type == TableType::nic_tx]),
        actions_(s, type == TableType::nic_tx),
        type_(type),
        egress_(type == TableType::nic_tx),
        source_(source) {}

  void start(const FlowTable& table, uint32_t tag, std::span<const std::byte> frame) noexcept {
    SteWay b;
    // Written to only as a copy.
    b.frame = {const_cast<std::byte*>(frame.data()), frame.size()};
    b.tag = tag;
    b.address = icm_end::address_of(IcmEnd::table, table.number);
    push(b);
    while (waiting_ != 0) follow(waiting_list_[--waiting_]);
  }
  [[nodiscard]] std::size_t arrived() const noexcept { return arrived_; }

 private:
  static constexpr std::size_t most_waiting = 40;

  void stop(const char* why) noexcept {
    s_.why_ = why;
    if (why != ste_end::dropped) s_.lost_ = why;
  }

  void push(const SteWay& b) noexcept {
    if (waiting_ == most_waiting) return stop(ste_end::too_many);
    waiting_list_[waiting_++] = b;
  }

  void follow(const SteWay& way) noexcept {
    SteBranch b{way, false, {}};
    while (b.address != 0) {
      if (!actions_.spend(1)) return stop(ste_end::no_end);
      if (s_.icm.steering.has(b.address)) {
        if (!step(b)) return;
      } else {
        finish(b);
      }
    }
  }

  // An end, or a table of the firmware's, from where other branches go on; one that software writes
  // is where this one does.
  void finish(SteBranch& b) noexcept {
    const uint32_t number = icm_end::number_of(b.address);
    const IcmEnd kind = icm_end::kind_of(b.address);
    b.address = 0;
    switch (kind) {
      case IcmEnd::drop:
        return stop(ste_end::dropped);
      case IcmEnd::allow:
        return egress_ ? arrive(b, nullptr) : stop(ste_end::unknown);
      case IcmEnd::tir:
        return to_tir(b, number);
      case IcmEnd::table:
        return to_table(b, number);
      case IcmEnd::sampler:
        return to_sampler(b, number);
      case IcmEnd::none:
        return stop(ste_end::no_entry);
    }
  }

  void arrive(const SteWay& b, wq::Qp* to) noexcept {
    if (arrived_ == SoftSteering::most_arrivals) return stop(ste_end::too_many);
    scratch_.arrivals[arrived_++] = {{to, b.tag}, b.frame};
  }

  void to_tir(const SteWay& b, uint32_t number) noexcept {
    Tir* tir = s_.tirs->at(number);
    if (tir == nullptr || egress_) return stop(ste_end::no_object);
    arrive(b, &tir->end);
  }

  void to_table(SteBranch& b, uint32_t number) noexcept {
    const FlowTable* table = s_.tables.at(number);
    if (table == nullptr || table->type != type_) return stop(ste_end::no_object);
    if (table->software) {
      b.address = table->root;  // if that is an end again, steps are counted
      return;
    }
    if (!table->has_entry || table->entry.drops) return stop(ste_end::dropped);
    to_entry(b, table->entry);
  }

  void to_entry(const SteWay& b, const FlowEntry& entry) noexcept {
    for (const uint32_t counter : entry.counters)
      actions_.hit(s_.counters->at(counter), b.frame.size());
    SteWay next = b;
    if (entry.tag != 0) next.tag = entry.tag;
    next.own = next.own && entry.to.size() == 1;
    for (const FlowEntry::To& to : entry.to) {
      next.address = icm_end::address_of(to.table ? IcmEnd::table : IcmEnd::tir, to.number);
      push(next);
    }
    if (entry.to.empty()) stop(ste_end::dropped);
  }

  void to_sampler(const SteWay& b, uint32_t number) noexcept {
    FlowSampler* sampler = s_.samplers.at(number);
    if (sampler == nullptr) return stop(ste_end::no_object);
    actions_.hit(&sampler->seen, b.frame.size());
    SteWay next = b;
    next.own = false;
    if (sampler->seen.packets % sampler->ratio == 0) {
      next.address = icm_end::address_of(IcmEnd::table, sampler->sample);
      push(next);
    }
    next.address = icm_end::address_of(IcmEnd::table, sampler->otherwise);
    push(next);
  }

  // False: the branch ends here.
  bool step(SteBranch& b) noexcept {
    const auto memory = s_.icm.steering.at(b.address, ste::bytes);
    if (memory.empty()) return stop(ste_end::no_entry), false;
    std::array<std::byte, ste::bytes> entry;
    std::memcpy(entry.data(), memory.data(), entry.size());
    const uint32_t type = ste_get(entry, ste::entry_type);
    const bool moves = egress_ ? type == ste::type_tx : type == ste::type_rx;
    if (!moves && type != ste::type_modify_packet) return stop(ste_end::no_entry), false;
    SteTag found;
    if (!look(b, static_cast<uint8_t>(ste_get(entry, ste::entry_sub_type)), found))
      return stop(ste_end::unknown), false;
    if (!matches(entry, found)) {
      b.address = uint64_t{ste_get(entry, ste::miss_address_39_32)} << 32 |
                  uint64_t{ste_get(entry, ste::miss_address_31_6)} << 6;
      return b.address != 0 || (stop(ste_end::no_entry), false);
    }
    if (const char* why = actions_.act(b, entry, type)) return stop(why), false;
    return go_on(b, entry);
  }

  // All bits of the tag count: an entry that no frame matches has one outside its mask
  // (dr_ste_set_always_miss()).
  static bool matches(std::span<const std::byte> entry, const SteTag& found) noexcept {
    for (std::size_t i = 0; i < found.size(); i++)
      if ((found[i] & entry[ste::mask_at + i]) != entry[ste::tag_at + i]) return false;
    return true;
  }

  bool look(SteBranch& b, uint8_t lookup, SteTag& found) const noexcept {
    if (!b.known) {
      b.headers = read_headers(b.frame);
      b.headers.source_queue = source_;
      b.known = true;
    }
    return look_up(lookup, b.headers, b.registers, found);
  }

  // To the next table, by the hash over what it looks at.
  bool go_on(SteBranch& b, std::span<const std::byte> entry) noexcept {
    const uint64_t index = uint64_t{ste_get(entry, ste::next_table_base_39_32_size)} << 27 |
                           ste_get(entry, ste::next_table_base_31_5_size);
    if (index == 0) return stop(ste_end::no_entry), false;
    const auto log_entries = static_cast<unsigned>(std::countr_zero(index));
    if (log_entries > IcmArea::log_unit + 16) return stop(ste_end::no_entry), false;
    const uint64_t entries = uint64_t{1} << log_entries;
    b.address = (index ^ entries) << 5;
    if (entries == 1) return b.address != 0 || (stop(ste_end::no_entry), false);
    SteTag found;
    if (!look(b, static_cast<uint8_t>(ste_get(entry, ste::next_lu_type)), found))
      return stop(ste_end::unknown), false;
    const auto mask = static_cast<uint16_t>(ste_get(entry, ste::byte_mask));
    b.address += uint64_t{hash_place(found, mask, static_cast<uint32_t>(entries))}
                 << ste::log_bytes;
    return true;
  }

  SoftSteering& s_;
  SoftSteering::Scratch& scratch_;
  SteActions actions_;
  TableType type_;
  bool egress_;
  uint32_t source_;
  std::array<SteWay, most_waiting> waiting_list_;
  std::size_t waiting_ = 0, arrived_ = 0;
};

void SoftSteering::use(std::size_t longest_frame) {
  copy_bytes_ = SteActions::headroom + longest_frame;
  for (Scratch& s : scratch_) s.copies.resize(most_copies * copy_bytes_);
}

std::span<const Arrival> SoftSteering::walk(const FlowTable& table, FlowTarget by,
                                            uint32_t source_queue,
                                            std::span<const std::byte> frame) noexcept {
  why_ = ste_end::dropped;
  SteWalk walk(*this, table.type, source_queue);
  walk.start(table, by.tag, frame);
  return std::span(scratch_[table.type == TableType::nic_tx].arrivals).first(walk.arrived());
}

void SoftSteering::count(bool egress) noexcept {
  Scratch& s = scratch_[egress];
  for (const Hit& h : std::span(s.hit).first(s.hits)) {
    h.count->packets++;
    h.count->bytes += h.bytes;
  }
  s.hits = 0;
}

}  // namespace kilim::vhca::ethernet
