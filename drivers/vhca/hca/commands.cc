// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Command Interface". Firmware commands of DevX clients: capabilities and memory keys. Bytes
// are the client's; what is wrong becomes a status and a syndrome, never an error of ours.
// Adapter's lock held.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/hca/caps.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/hca.hh"
#include "vhca/hca/journal.hh"
#include "vhca/hca/state.hh"

namespace kilim::vhca {

namespace {

using prm::cmd::Status;

// One number for each place where a command is refused.
enum class Refusal : uint32_t {
  none = 0,
  unknown_opcode = 0x56a001,
  input_length = 0x56a002,
  output_length = 0x56a003,
  cap_group = 0x56a004,
  umem_key = 0x56a005,
  list_length = 0x56a006,
  no_such_pd = 0x56a007,
  key_context = 0x56a008,
  no_more_keys = 0x56a009,
  no_such_key = 0x56a00a,
};

struct Outcome {
  Status status = Status::ok;
  Refusal why = Refusal::none;
};

using In = std::span<const std::byte>;
using Out = std::span<std::byte>;

template <typename T>
T read(In in, std::size_t at = 0) {
  T v;
  std::memcpy(&v, in.data() + at, sizeof v);
  return v;
}

Outcome query_hca_cap(HcaState& s, In in, Out out) {
  constexpr std::size_t header = 16;
  // Maximum and current values are the same: nothing is negotiated.
  auto group = static_cast<uint16_t>(read<prm::CmdInHdr>(in).op_mod.host() >> 1);
  std::byte caps[prm::cmd::hca_cap_bytes]{};
  if (!fill_caps(s.config.profile, group, caps)) return {Status::bad_param, Refusal::cap_group};
  std::memcpy(out.data() + header, caps, sizeof caps);
  return {};
}

Outcome create_mkey(HcaState& s, In in, Out out) {
  auto cmd = read<prm::CreateMkeyIn>(in);
  if (cmd.flags.host() != 0) return {Status::bad_param, Refusal::umem_key};
  std::size_t list = std::size_t{cmd.translations_octword_actual_size.host()} * 16;
  if (list > in.size() - sizeof cmd) return {Status::bad_input_len, Refusal::list_length};
  if (!s.pd_exists(Pdn{prm::mkc::pd::get(cmd.mkc)}))
    return {Status::bad_resource, Refusal::no_such_pd};
  Result<Mkey*> key = s.keys.create_mkey(cmd.mkc, in.subspan(sizeof cmd, list), s.config.profile);
  if (!key && key.error().code == ENOMEM) return {Status::no_resources, Refusal::no_more_keys};
  if (!key) return {Status::bad_param, Refusal::key_context};
  prm::CreateMkeyOut made{};
  made.mkey_index = be32{(*key)->index()};
  std::memcpy(out.data(), &made, sizeof made);
  return {};
}

Outcome destroy_mkey(HcaState& s, In in, Out) {
  uint32_t index = read<be32>(in, 8).host() & 0xffffff;
  if (s.keys.destroy(MkeyIndex{index}) != 0) return {Status::bad_resource, Refusal::no_such_key};
  return {};
}

struct Command {
  uint16_t opcode;
  std::size_t in_bytes;  // least
  std::size_t out_bytes;
  Outcome (*run)(HcaState&, In, Out);
};

constexpr Command commands[] = {
    {prm::cmd::query_hca_cap, 16, 16 + prm::cmd::hca_cap_bytes, query_hca_cap},
    {prm::cmd::create_mkey, sizeof(prm::CreateMkeyIn), sizeof(prm::CreateMkeyOut), create_mkey},
    {prm::cmd::destroy_mkey, 16, 16, destroy_mkey},
};

Outcome run_command(HcaState& s, In in, Out out) {
  uint16_t opcode = read<prm::CmdInHdr>(in).opcode.host();
  const auto* c = std::find_if(std::begin(commands), std::end(commands),
                               [=](const Command& row) { return row.opcode == opcode; });
  if (c == std::end(commands)) return {Status::bad_op, Refusal::unknown_opcode};
  if (in.size() < c->in_bytes) return {Status::bad_input_len, Refusal::input_length};
  if (out.size() < c->out_bytes) return {Status::bad_output_len, Refusal::output_length};
  return c->run(s, in, out);
}

}  // namespace

int Hca::command(std::span<const std::byte> in, std::span<std::byte> out) {
  if (in.size() < sizeof(prm::CmdInHdr) || out.size() < sizeof(prm::CmdOutHdr)) return -EINVAL;
  if (state_->dead && !done_by_the_dead(read<prm::CmdInHdr>(in).opcode.host())) return -EIO;
  std::fill(out.begin(), out.end(), std::byte{0});
  Outcome o = run_command(*state_, in, out);
  prm::CmdOutHdr header{};
  header.status = static_cast<uint8_t>(o.status);
  header.syndrome = be32{static_cast<uint32_t>(o.why)};
  std::memcpy(out.data(), &header, sizeof header);
  journal().command(read<prm::CmdInHdr>(in).opcode.host(), header.status,
                    static_cast<uint32_t>(o.why), in);
  return 0;
}

}  // namespace kilim::vhca
