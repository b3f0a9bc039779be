// SPDX-License-Identifier: BSD-3-Clause
// The profiles by name: one card, and that card with one property changed. Pure values.
#include "vhca/core/profile.hh"

#include <cerrno>
#include <cstddef>
#include <iterator>

#include "vhca/core/profile_names.hh"

namespace kilim::vhca {

namespace {

struct Card {
  const char* name;
  void (*change)(Profile&);  // what differs from a ConnectX-6 Dx
};

// Everything about lists that a card may lack.
void plain_lists(Profile& p) {
  p.umr_fence = 0;
  p.max_indirection = 1;
  p.log_max_klm_list_size = 8;
  p.umr_ptr_rlkey = false;
  p.repeated_block_disabled = true;
  p.umr_modify_entity_size_disabled = true;
  p.umr_modify_atomic_disabled = true;
  p.umr_extended_translation_offset = false;
}

// What ibv_devinfo -v tells of a ConnectX-5.
void less_odp(Profile& p) {
  p.odp_rc = paged_op::all & ~paged_op::atomic;
  p.odp_xrc = p.odp_dc = p.odp_rc & ~paged_op::receive;
}

void plain_sending(Profile& p) {
  p.vlan_insertion = false;
  p.log_max_tso = 0;
  p.software_parser = false;
}

// A ConnectX-4: one packet a WQE, with the frame's first headers, among which a tag would lie.
void inlined_headers(Profile& p, uint8_t mode) {
  p.min_inline = mode;
  p.multi_packet_send = p.vlan_insertion = false;
}

// A subnet of one port: it has its LID, matches tags, and has no Ethernet.
void infiniband(Profile& p) {
  p.lid = 1;
  p.log_max_tags = 7;
  p.raw_packet = p.scatter_fcs = p.vlan_stripping = p.multi_packet_send = false;
  plain_sending(p);
}

constexpr Card cards[] = {
    {"cx6dx", [](Profile&) {}},
    {"vf",
     [](Profile& p) {
       p.memory_windows = p.signature = false;
       p.crypto_tweak = CryptoTweak::none;
     }},
    {"strong-fence", [](Profile& p) { p.umr_fence = 0; }},
    {"no-fence", [](Profile& p) { p.umr_fence = 2; }},
    {"no-devx", [](Profile& p) { p.devx = false; }},
    {"long-lists", [](Profile& p) { p.log_max_klm_list_size = 20; }},
    {"plain-lists", plain_lists},
    {"no-umr-lists", [](Profile& p) { p.umr_indirect_mkey_disabled = true; }},
    {"real-time", [](Profile& p) { p.real_time_clock = true; }},
    {"no-odp", [](Profile& p) { p.odp = p.odp_implicit = false; }},
    {"less-odp", less_odp},
    {"no-inline", [](Profile& p) { p.scatter_to_cqe = false; }},
    {"no-dm", [](Profile& p) { p.max_dm_size = 0; }},
    {"no-dc", [](Profile& p) { p.dynamic = false; }},
    {"no-signature", [](Profile& p) { p.signature = false; }},
    {"no-crypto", [](Profile& p) { p.crypto_tweak = CryptoTweak::none; }},
    {"crypto-be", [](Profile& p) { p.crypto_tweak = CryptoTweak::big_endian; }},
    {"no-mpw", [](Profile& p) { p.multi_packet_send = false; }},
    {"no-tunnels", [](Profile& p) { p.tunnels = p.software_parser = false; }},
    {"sw-steering", [](Profile& p) { p.software_steering = true; }},
    {"no-lro", [](Profile& p) { p.lro = false; }},
    {"long-lro", [](Profile& p) { p.lro_min_mss = 1348; }},
    {"no-roce", [](Profile& p) { p.roce = false; }},
    {"short-wqes", [](Profile& p) { p.max_sq_desc_bytes = 512; }},
    {"few-priorities", [](Profile& p) { p.flow_priorities = 8; }},
    {"no-egress", [](Profile& p) { p.egress_rules = false; }},
    {"no-swp", [](Profile& p) { p.software_parser = false; }},
    {"no-tx-offloads", plain_sending},
    {"inline-l2", [](Profile& p) { inlined_headers(p, 1); }},
    {"inline-ip", [](Profile& p) { inlined_headers(p, 2); }},
    {"infiniband", infiniband},
};

}  // namespace

const char* profile_name(std::size_t place) noexcept {
  return place < std::size(cards) ? cards[place].name : nullptr;
}

Result<Profile> find_profile(std::string_view name) {
  for (const Card& card : cards) {
    if (name != card.name) continue;
    Profile p;
    card.change(p);
    p.name = card.name;
    return p;
  }
  return Error{EINVAL,
               "no such profile: cx6dx, vf, strong-fence, no-fence, no-devx, real-time, "
               "long-lists, plain-lists, "
               "no-umr-lists, no-odp, less-odp, no-inline, no-dm, no-dc,"
               " no-signature, no-crypto, crypto-be, no-mpw, no-tunnels, no-swp, "
               "sw-steering, no-lro, long-lro, no-roce, short-wqes, "
               "few-priorities, "
               "no-egress, no-tx-offloads, inline-l2, inline-ip "
               "and infiniband are known"};
}

}  // namespace kilim::vhca
