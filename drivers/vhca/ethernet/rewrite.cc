// SPDX-License-Identifier: BSD-3-Clause
// Which bits of a frame each field is: rdma-core v44 providers/mlx5/dr_ste_v0.c,
// dr_ste_v0_action_modify_field_arr[], and mlx5_ifc.h for the firmware's numbers of the same
// (MLX5_ACTION_IN_FIELD_*).
#include "vhca/ethernet/rewrite.hh"

#include <algorithm>

#include "kilim/prm/flow_table.hh"
#include "kilim/prm/ste.hh"
#include "vhca/wire/packet.hh"

namespace kilim::vhca::ethernet {

namespace {

namespace hw = prm::ste::rewrite;
using FrameBytes = std::span<std::byte>;

// A run of bytes of the frame and where its lowest bit lies in the field.
struct FieldRun {
  uint8_t code;
  uint8_t low;       // bit of the field
  uint8_t bytes;     // of the frame
  wire::L3 only_l3;  // L3::none: any
  wire::L4 only_l4;  // L4::none: any
  uint8_t base;      // 0 the frame, 1 the IP header, 2 its payload, 3 the type
  uint8_t at;        // bytes behind the base
};
constexpr uint8_t of_frame = 0, of_ip = 1, of_l4 = 2, of_ether_type = 3;
constexpr FieldRun field_runs[] = {
    {hw::l2_0, 0, 6, wire::L3::none, wire::L4::none, of_frame, 0},
    {hw::l2_1, 0, 6, wire::L3::none, wire::L4::none, of_frame, 6},
    {hw::l2_2, 32, 2, wire::L3::none, wire::L4::none, of_ether_type, 0},
    {hw::l3_0, 0, 4, wire::L3::ipv4, wire::L4::none, of_ip, 12},
    {hw::l3_0, 32, 4, wire::L3::ipv4, wire::L4::none, of_ip, 16},
    {hw::l3_0, 0, 8, wire::L3::ipv6, wire::L4::none, of_ip, 24},
    {hw::l3_2, 0, 8, wire::L3::ipv6, wire::L4::none, of_ip, 32},
    {hw::l3_3, 0, 8, wire::L3::ipv6, wire::L4::none, of_ip, 8},
    {hw::l3_4, 0, 8, wire::L3::ipv6, wire::L4::none, of_ip, 16},
    {hw::l3_1, 8, 1, wire::L3::ipv4, wire::L4::none, of_ip, 8},
    {hw::l3_1, 8, 1, wire::L3::ipv6, wire::L4::none, of_ip, 7},
    {hw::l4_0, 0, 2, wire::L3::none, wire::L4::tcp, of_l4, 0},
    {hw::l4_0, 16, 2, wire::L3::none, wire::L4::tcp, of_l4, 2},
    {hw::l4_0, 0, 2, wire::L3::none, wire::L4::udp, of_l4, 0},
    {hw::l4_0, 16, 2, wire::L3::none, wire::L4::udp, of_l4, 2},
    {hw::l4_1, 32, 4, wire::L3::none, wire::L4::tcp, of_l4, 4},
    {hw::l4_1, 0, 4, wire::L3::none, wire::L4::tcp, of_l4, 8},
};

std::size_t place_of(const FieldRun& r, const wire::PacketView& v) noexcept {
  constexpr std::size_t type_at = 12, tag_bytes = 4;
  switch (r.base) {
    case of_ip:
      return v.l3_at + r.at;
    case of_l4:
      return v.l4_at + r.at;
    case of_ether_type:
      return type_at + tag_bytes * v.tags;
    default:
      return r.at;
  }
}

bool run_applies(const FieldRun& r, uint8_t code, const wire::PacketView& v) noexcept {
  return r.code == code && (r.only_l3 == wire::L3::none || r.only_l3 == v.l3) &&
         (r.only_l4 == wire::L4::none || r.only_l4 == v.l4);
}

// Fields that are not whole bytes: the class of traffic, TCP's flags, the first tag's number.
// Each as a word of 16 bits of the frame, its place and shift, and how many bits there.
struct FieldBits {
  std::size_t at;
  uint8_t low, width;  // in the word
  uint8_t field_low;   // in the field
};
// At most three.
std::size_t bits_of(uint8_t code, const wire::PacketView& v,
                    std::array<FieldBits, 3>& out) noexcept {
  constexpr std::size_t tci_at = 14, tcp_flags_at = 12;
  if (code == hw::l2_2 && v.tags != 0) {
    out[0] = {tci_at, 0, 12, 0};
    return 1;
  }
  if (code == hw::l3_1 && v.l3 != wire::L3::none) {
    // DSCP below ECN in the field, above it in the header.
    const uint8_t low = v.l3 == wire::L3::ipv4 ? 0 : 4;
    out[0] = {v.l3_at, static_cast<uint8_t>(low + 2), 6, 0};
    out[1] = {v.l3_at, low, 2, 6};
    return 2;
  }
  if (code == hw::l4_0 && v.l4 == wire::L4::tcp) {
    out[0] = {v.l4_at + tcp_flags_at, 0, 9, 48};
    return 1;
  }
  return 0;
}

constexpr uint64_t low_ones(unsigned width) noexcept {
  return width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
}

uint64_t* register_of(uint8_t code, SteeringRegisters& r) noexcept {
  if (code >= hw::reg_0 && code <= hw::reg_3) return &r.reg[code - hw::reg_0];
  return code == hw::metadata ? &r.metadata : nullptr;
}

uint64_t load_field(uint8_t code, FrameBytes f, const wire::PacketView& v,
                    SteeringRegisters& r) noexcept {
  if (const uint64_t* reg = register_of(code, r)) return *reg;
  uint64_t value = 0;
  for (const FieldRun& run : field_runs) {
    const std::size_t at = place_of(run, v);
    if (!run_applies(run, code, v) || at + run.bytes > f.size()) continue;
    uint64_t n = 0;
    for (std::size_t i = 0; i < run.bytes; i++) n = n << 8 | std::to_integer<uint64_t>(f[at + i]);
    value |= n << run.low;
  }
  std::array<FieldBits, 3> bits{};
  for (std::size_t i = 0, n = bits_of(code, v, bits); i < n; i++)
    value |=
        (uint64_t{wire::get_be<uint16_t>(f, bits[i].at)} >> bits[i].low & low_ones(bits[i].width))
        << bits[i].field_low;
  return value;
}

void store_field(uint8_t code, uint64_t value, FrameBytes f, const wire::PacketView& v,
                 SteeringRegisters& r) noexcept {
  if (uint64_t* reg = register_of(code, r)) {
    *reg = value;
    return;
  }
  for (const FieldRun& run : field_runs) {
    const std::size_t at = place_of(run, v);
    if (!run_applies(run, code, v) || at + run.bytes > f.size()) continue;
    for (std::size_t i = 0; i < run.bytes; i++)
      f[at + i] = static_cast<std::byte>(value >> run.low >> 8 * (run.bytes - 1 - i));
  }
  std::array<FieldBits, 3> bits{};
  for (std::size_t i = 0, n = bits_of(code, v, bits); i < n; i++) {
    const auto mask = static_cast<unsigned>(low_ones(bits[i].width) << bits[i].low);
    const auto set = static_cast<unsigned>(value >> bits[i].field_low) << bits[i].low & mask;
    wire::put_be(f, bits[i].at,
                 static_cast<uint16_t>((wire::get_be<uint16_t>(f, bits[i].at) & ~mask) | set));
  }
}

void do_action(const RewriteAction& a, FrameBytes f, const wire::PacketView& v,
               SteeringRegisters& r) noexcept {
  if (a.opcode == hw::none) return;
  const uint64_t mask = low_ones(a.length), old = load_field(a.to, f, v, r);
  uint64_t value = a.data;
  if (a.opcode == hw::copy) value = load_field(a.from, f, v, r) >> a.from_shift;
  if (a.opcode == hw::add) value += old >> a.to_shift;
  store_field(a.to, (old & ~(mask << a.to_shift)) | (value & mask) << a.to_shift, f, v, r);
}

bool udp_sum_counts(std::span<const std::byte> f, const wire::PacketView& v) noexcept {
  constexpr std::size_t udp_sum_at = 6;
  return v.l4 != wire::L4::udp || wire::get_be<uint16_t>(f, v.l4_at + udp_sum_at) != 0;
}

// The firmware's numbers of fields.
struct NamedField {
  uint16_t field;
  uint8_t code, low, width;
};
constexpr NamedField named_fields[] = {
    {0x01, hw::l2_1, 16, 32}, {0x02, hw::l2_1, 0, 16},  {0x03, hw::l2_2, 32, 16},
    {0x04, hw::l2_0, 16, 32}, {0x05, hw::l2_0, 0, 16},  {0x06, hw::l3_1, 0, 6},
    {0x07, hw::l4_0, 48, 9},  {0x08, hw::l4_0, 0, 16},  {0x09, hw::l4_0, 16, 16},
    {0x0a, hw::l3_1, 8, 8},   {0x0b, hw::l4_0, 0, 16},  {0x0c, hw::l4_0, 16, 16},
    {0x0d, hw::l3_3, 32, 32}, {0x0e, hw::l3_3, 0, 32},  {0x0f, hw::l3_4, 32, 32},
    {0x10, hw::l3_4, 0, 32},  {0x11, hw::l3_0, 32, 32}, {0x12, hw::l3_0, 0, 32},
    {0x13, hw::l3_2, 32, 32}, {0x14, hw::l3_2, 0, 32},  {0x15, hw::l3_0, 0, 32},
    {0x16, hw::l3_0, 32, 32}, {0x17, hw::l2_2, 0, 12},  {0x47, hw::l3_1, 8, 8},
    {0x59, hw::l4_1, 32, 32}, {0x5b, hw::l4_1, 0, 32},  {0x73, hw::l3_1, 6, 2},
};
const NamedField* field_named(uint32_t number) noexcept {
  const auto* at = std::find_if(std::begin(named_fields), std::end(named_fields),
                                [=](const NamedField& n) { return n.field == number; });
  return at != std::end(named_fields) ? at : nullptr;
}

}  // namespace

std::optional<RewriteAction> read_action(std::span<const std::byte> b) noexcept {
  const auto part = [&b](prm::CapField f) { return static_cast<uint8_t>(prm::cap_get(b, f)); };
  RewriteAction a;
  a.opcode = part(hw::opcode);
  if (a.opcode > hw::add) return std::nullopt;
  a.to = part(hw::destination_field_code);
  a.to_shift = part(hw::destination_left_shifter);
  const bool copies = a.opcode == hw::copy;
  a.length = part(copies ? hw::copy_length : hw::set_length);
  if (a.length == 0) a.length = 32;
  if (copies) {
    a.from = part(hw::source_field_code);
    a.from_shift = part(hw::source_left_shifter);
  } else {
    a.data = prm::cap_get(b, hw::inline_data);
  }
  return a;
}

std::optional<RewriteAction> read_prm_action(std::span<const std::byte> b) noexcept {
  namespace s = prm::set_action;
  const uint32_t type = prm::cap_get(b, s::action_type);
  const NamedField* first = field_named(prm::cap_get(b, s::field));
  const NamedField* to = type == s::copy ? field_named(prm::cap_get(b, s::dst_field)) : first;
  if (first == nullptr || to == nullptr || type == 0 || type > s::copy) return std::nullopt;
  const uint32_t offset = prm::cap_get(b, s::offset), told = prm::cap_get(b, s::length);
  const uint32_t to_offset = type == s::copy ? prm::cap_get(b, s::dst_offset) : offset;
  const uint32_t length = told == 0 ? 32 : told;
  if (offset + length > first->width || to_offset + length > to->width) return std::nullopt;
  RewriteAction a;
  a.opcode = type == s::copy ? hw::copy : type == s::add ? hw::add : hw::set;
  a.to = to->code;
  a.to_shift = static_cast<uint8_t>(to->low + to_offset);
  a.length = static_cast<uint8_t>(length);
  a.from = first->code;
  a.from_shift = static_cast<uint8_t>(first->low + offset);
  if (type != s::copy) a.data = prm::cap_get(b, s::data);
  return a;
}

void rewrite_frame(std::span<const RewriteAction> list, FrameBytes frame,
                   SteeringRegisters& registers) noexcept {
  const wire::PacketView v = wire::parse_packet(frame);
  const bool l3_good = v.l3 == wire::L3::ipv4 && wire::l3_checksum_good(frame, v);
  const bool l4_good =
      v.l4 != wire::L4::none && udp_sum_counts(frame, v) && wire::l4_checksum_good(frame, v);
  for (const RewriteAction& a : list) do_action(a, frame, v, registers);
  if (l3_good) wire::write_l3_checksum(frame, v);
  if (l4_good) wire::write_l4_checksum(frame, v);
}

}  // namespace kilim::vhca::ethernet
