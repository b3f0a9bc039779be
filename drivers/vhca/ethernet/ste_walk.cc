// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Steering Table Entry", format 0. Follows a frame from a table's first entry to where it
// goes: each entry looks at a part of the headers, and says what is done and where the frame goes
// on, by hash, or elsewhere if it is not as asked. rdma-core v44 providers/mlx5/dr_ste.c and
// dr_ste_v0.c say what software means by what it writes. Adapter's lock held.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kilim/prm/ste.hh"
#include "vhca/ethernet/frame_out.hh"
#include "vhca/ethernet/rewrite.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/ethernet/ste_lookup.hh"
#include "vhca/ethernet/tir.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wire/tunnel.hh"

namespace kilim::vhca {

namespace ste = prm::ste;

class SteWalk {
 public:
  SteWalk(SoftSteering& s, bool egress, uint32_t source) noexcept
      : s_(s), scratch_(s.scratch_[egress]), egress_(egress), source_(source) {}

  void start(const FlowTable& table, uint32_t tag, std::span<const std::byte> frame) noexcept {
    Way b;
    // Written to only as a copy.
    b.frame = {const_cast<std::byte*>(frame.data()), frame.size()};
    b.tag = tag;
    b.address = icm_end::address_of(IcmEnd::table, table.number);
    push(b);
    while (waiting_ != 0) follow(waiting_list_[--waiting_]);
  }
  [[nodiscard]] std::size_t arrived() const noexcept { return arrived_; }

 private:
  friend class SoftSteering;

  static constexpr std::size_t headroom = 256;  // of a copy, for headers in front
  static constexpr std::size_t vlan_bytes = 4;

  static constexpr const char* dropped = "a steering entry drops it";
  static constexpr const char* no_entry = "no steering entry lies where the frame goes on";
  static constexpr const char* no_end = "a chain of steering entries has no end";
  static constexpr const char* unknown = "a steering entry asks for what the adapter does not have";
  static constexpr const char* too_many = "steering entries make too much of a frame";
  static constexpr const char* no_tunnel = "a steering entry takes off a tunnel that is not there";
  static constexpr const char* no_object = "a steering entry leads to an object that is gone";

  // One way of the frame.
  struct Way {
    uint64_t address = 0;  // of the next entry, or an end
    std::span<std::byte> frame;
    bool own = false;  // the frame is a copy of this way alone
    uint32_t tag = 0;
    SteeringRegisters registers;
  };
  // The one that is gone.
  struct Branch : Way {
    bool known = false;  // `headers` are the frame's
    SteHeaders headers;
  };

  static constexpr std::size_t most_waiting = 40;

  void stop(const char* why) noexcept { s_.why_ = why; }

  void hit(FlowCount* count, uint64_t bytes) noexcept {
    if (count != nullptr && scratch_.hits < scratch_.hit.size())
      scratch_.hit[scratch_.hits++] = {count, bytes};
  }

  void push(const Way& b) noexcept {
    if (waiting_ == most_waiting) return stop(too_many);
    waiting_list_[waiting_++] = b;
  }

  void follow(const Way& way) noexcept {
    Branch b{way, false, {}};
    while (b.address != 0) {
      if (++steps_ > SoftSteering::most_steps) return stop(no_end);
      if (s_.icm.steering.has(b.address)) {
        if (!step(b)) return;
      } else {
        finish(b);
      }
    }
  }

  // An end, or a table of the firmware's, from where other branches go on; one that software writes
  // is where this one does.
  void finish(Branch& b) noexcept {
    const uint32_t number = icm_end::number_of(b.address);
    const IcmEnd kind = icm_end::kind_of(b.address);
    b.address = 0;
    switch (kind) {
      case IcmEnd::drop:
        return stop(dropped);
      case IcmEnd::allow:
        return egress_ ? arrive(b, nullptr) : stop(unknown);
      case IcmEnd::tir:
        return to_tir(b, number);
      case IcmEnd::table:
        return to_table(b, number);
      case IcmEnd::sampler:
        return to_sampler(b, number);
      case IcmEnd::none:
        return stop(no_entry);
    }
  }

  void arrive(const Way& b, Qp* to) noexcept {
    if (arrived_ == SoftSteering::most_arrivals) return stop(too_many);
    scratch_.arrivals[arrived_++] = {{to, b.tag}, b.frame};
  }

  void to_tir(const Way& b, uint32_t number) noexcept {
    Tir* tir = s_.tirs->at(number);
    if (tir == nullptr || egress_) return stop(no_object);
    arrive(b, &tir->end);
  }

  void to_table(Branch& b, uint32_t number) noexcept {
    const FlowTable* table = s_.tables.at(number);
    if (table == nullptr || table->egress != egress_) return stop(no_object);
    if (table->software) {
      b.address = table->root;  // if that is an end again, steps are counted
      return;
    }
    if (!table->has_entry || table->entry.drops) return stop(dropped);
    to_entry(b, table->entry);
  }

  void to_entry(const Way& b, const FlowEntry& entry) noexcept {
    for (const uint32_t counter : entry.counters) hit(s_.counters->at(counter), b.frame.size());
    Way next = b;
    if (entry.tag != 0) next.tag = entry.tag;
    next.own = next.own && entry.to.size() == 1;
    for (const FlowEntry::To& to : entry.to) {
      next.address = icm_end::address_of(to.table ? IcmEnd::table : IcmEnd::tir, to.number);
      push(next);
    }
    if (entry.to.empty()) stop(dropped);
  }

  void to_sampler(const Way& b, uint32_t number) noexcept {
    FlowSampler* sampler = s_.samplers.at(number);
    if (sampler == nullptr) return stop(no_object);
    hit(&sampler->seen, b.frame.size());
    Way next = b;
    next.own = false;
    if (sampler->seen.packets % sampler->ratio == 0) {
      next.address = icm_end::address_of(IcmEnd::table, sampler->sample);
      push(next);
    }
    next.address = icm_end::address_of(IcmEnd::table, sampler->otherwise);
    push(next);
  }

  // False: the branch ends here.
  bool step(Branch& b) noexcept {
    const auto memory = s_.icm.steering.at(b.address, ste::bytes);
    if (memory.empty()) return stop(no_entry), false;
    std::array<std::byte, ste::bytes> entry;
    std::memcpy(entry.data(), memory.data(), entry.size());
    const uint32_t type = get(entry, ste::entry_type);
    const bool moves = egress_ ? type == ste::type_tx : type == ste::type_rx;
    if (!moves && type != ste::type_modify_packet) return stop(no_entry), false;
    SteTag found;
    if (!look(b, static_cast<uint8_t>(get(entry, ste::entry_sub_type)), found))
      return stop(unknown), false;
    if (!matches(entry, found)) {
      b.address = uint64_t{get(entry, ste::miss_address_39_32)} << 32 |
                  uint64_t{get(entry, ste::miss_address_31_6)} << 6;
      return b.address != 0 || (stop(no_entry), false);
    }
    return act(b, entry, type) && go_on(b, entry);
  }

  static uint32_t get(std::span<const std::byte> entry, prm::CapField f) noexcept {
    return prm::cap_get(entry, f);
  }

  // All bits of the tag count: an entry that no frame matches has one outside its mask
  // (dr_ste_set_always_miss()).
  static bool matches(std::span<const std::byte> entry, const SteTag& found) noexcept {
    for (std::size_t i = 0; i < found.size(); i++)
      if ((found[i] & entry[ste::mask_at + i]) != entry[ste::tag_at + i]) return false;
    return true;
  }

  bool look(Branch& b, uint8_t lookup, SteTag& found) const noexcept {
    if (!b.known) {
      b.headers = read_headers(b.frame);
      b.headers.source_queue = source_;
      b.known = true;
    }
    return look_up(lookup, b.headers, b.registers, found);
  }

  // To the next table, by the hash over what it looks at.
  bool go_on(Branch& b, std::span<const std::byte> entry) noexcept {
    const uint64_t index = uint64_t{get(entry, ste::next_table_base_39_32_size)} << 27 |
                           get(entry, ste::next_table_base_31_5_size);
    if (index == 0) return stop(no_entry), false;
    const auto log_entries = static_cast<unsigned>(std::countr_zero(index));
    if (log_entries > IcmArea::log_unit + 16) return stop(no_entry), false;
    const uint64_t entries = uint64_t{1} << log_entries;
    b.address = (index ^ entries) << 5;
    if (entries == 1) return b.address != 0 || (stop(no_entry), false);
    SteTag found;
    if (!look(b, static_cast<uint8_t>(get(entry, ste::next_lu_type)), found))
      return stop(unknown), false;
    const auto mask = static_cast<uint16_t>(get(entry, ste::byte_mask));
    b.address += uint64_t{hash_place(found, mask, static_cast<uint32_t>(entries))}
                 << ste::log_bytes;
    return true;
  }

  bool act(Branch& b, std::span<const std::byte> entry, uint32_t type) noexcept {
    const uint32_t counter =
        get(entry, ste::counter_trigger_23_16) << 16 | get(entry, ste::counter_trigger_15_0);
    if (counter != 0) hit(s_.counters->at(counter), b.frame.size());
    if (egress_ && type == ste::type_tx) return send_action(b, entry);
    if (!tunnel_action(b, get(entry, ste::tunneling_action))) return false;
    if (type == ste::type_modify_packet) return rewrite(b, entry);
    const uint32_t pointer = get(entry, ste::qp_list_pointer);
    if ((pointer & ste::has_flow_tag) != 0) b.tag = pointer & 0xffffff;
    return true;
  }

  bool tunnel_action(Branch& b, uint32_t action) noexcept {
    switch (action) {
      case ste::tunnel_none:
      case ste::tunnel_enable:
        return true;
      case ste::tunnel_decap:
        return take_tunnel_off(b);
      case ste::tunnel_pop_vlan:
        return pop_vlan(b);
      default:  // of packets without an Ethernet header
        return stop(unknown), false;
    }
  }

  bool take_tunnel_off(Branch& b) noexcept {
    const TunnelView t = parse_tunnel(b.frame, parse_packet(b.frame));
    if (t.kind == TunnelKind::none || !t.has_ether ||
        b.frame.size() < t.inner_at + ether_header_bytes)
      return stop(no_tunnel), false;
    b.frame = b.frame.subspan(t.inner_at);
    b.known = false;
    return true;
  }

  // A frame without a tag stays as it is.
  bool pop_vlan(Branch& b) noexcept {
    constexpr std::size_t addresses = 12;
    if (parse_packet(b.frame).tags == 0) return true;
    if (!make_own(b)) return false;
    std::memmove(b.frame.data() + vlan_bytes, b.frame.data(), addresses);
    b.frame = b.frame.subspan(vlan_bytes);
    return true;
  }

  bool send_action(Branch& b, std::span<const std::byte> entry) noexcept {
    const uint32_t data = get(entry, ste::encap_pointer_vlan_data);
    switch (get(entry, ste::action_type)) {
      case ste::action_none:
        return true;
      case ste::action_push_vlan:
        return push_vlan(b, data);
      case ste::action_encap:
        return encapsulate(b, data, 0);
      case ste::action_encap_l3:
        return encapsulate(b, data, ether_header_bytes + vlan_bytes * parse_packet(b.frame).tags);
      default:
        return stop(unknown), false;
    }
  }

  bool push_vlan(Branch& b, uint32_t tag) noexcept {
    constexpr std::size_t addresses = 12;
    if (!make_own(b) || !put_in_front(b, vlan_bytes)) return false;
    std::memmove(b.frame.data(), b.frame.data() + vlan_bytes, addresses);
    put_be(b.frame, addresses, tag);
    return true;
  }

  // Headers in the place of the first `gone` bytes.
  bool encapsulate(Branch& b, uint32_t number, std::size_t gone) noexcept {
    const Prepend* p = s_.reformats.at(number & 0xffffff);
    if (p == nullptr || gone > b.frame.size()) return stop(no_object), false;
    if (!make_own(b)) return false;
    b.frame = b.frame.subspan(gone);
    if (!put_in_front(b, p->count)) return false;
    std::copy_n(p->bytes.begin(), p->count, b.frame.begin());
    finish_headers(b.frame, p->count);
    return true;
  }

  bool rewrite(Branch& b, std::span<const std::byte> entry) noexcept {
    const uint32_t count = get(entry, ste::number_of_re_write_actions);
    const uint64_t at =
        s_.icm.rewrite.start() +
        uint64_t{get(entry, ste::header_re_write_actions_pointer)} * ste::rewrite_unit;
    steps_ += count;
    const auto list = s_.icm.rewrite.at(at, std::size_t{count} * ste::rewrite::bytes);
    if (list.empty() && count != 0) return stop(no_entry), false;
    if (steps_ > SoftSteering::most_steps) return stop(no_end), false;
    if (!make_own(b)) return false;
    for (std::size_t i = 0; i < count; i++) {
      const auto action = read_action(list.subspan(i * ste::rewrite::bytes, ste::rewrite::bytes));
      if (!action) return stop(unknown), false;
      rewrite_frame({&*action, 1}, b.frame, b.registers);
    }
    return true;
  }

  // A copy that the branch may change; whoever asks does.
  bool make_own(Branch& b) noexcept {
    b.known = false;
    if (b.own) return true;
    if (copies_ == SoftSteering::most_copies || headroom + b.frame.size() > s_.copy_bytes_)
      return stop(too_many), false;
    std::byte* to = scratch_.copies.data() + copies_++ * s_.copy_bytes_ + headroom;
    std::memcpy(to, b.frame.data(), b.frame.size());
    b.frame = {to, b.frame.size()};
    b.own = true;
    return true;
  }

  bool put_in_front(Branch& b, std::size_t bytes) noexcept {
    const std::byte* begin =
        scratch_.copies.data() + static_cast<std::size_t>(b.frame.data() - scratch_.copies.data()) /
                                     s_.copy_bytes_ * s_.copy_bytes_;
    if (static_cast<std::size_t>(b.frame.data() - begin) < bytes) return stop(too_many), false;
    b.frame = {b.frame.data() - bytes, b.frame.size() + bytes};
    return true;
  }

  SoftSteering& s_;
  SoftSteering::Scratch& scratch_;
  bool egress_;
  uint32_t source_;
  std::array<Way, most_waiting> waiting_list_;
  std::size_t waiting_ = 0, arrived_ = 0, copies_ = 0, steps_ = 0;
};

void SoftSteering::use(std::size_t longest_frame) {
  copy_bytes_ = SteWalk::headroom + longest_frame;
  for (Scratch& s : scratch_) s.copies.resize(most_copies * copy_bytes_);
}

std::span<const Arrival> SoftSteering::walk(const FlowTable& table, FlowTarget by,
                                            uint32_t source_queue,
                                            std::span<const std::byte> frame) noexcept {
  why_ = SteWalk::dropped;
  SteWalk walk(*this, table.egress, source_queue);
  walk.start(table, by.tag, frame);
  return std::span(scratch_[table.egress].arrivals).first(walk.arrived());
}

void SoftSteering::count(bool egress) noexcept {
  Scratch& s = scratch_[egress];
  for (const Hit& h : std::span(s.hit).first(s.hits)) {
    h.count->packets++;
    h.count->bytes += h.bytes;
  }
  s.hits = 0;
}

}  // namespace kilim::vhca
