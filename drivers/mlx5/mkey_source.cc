// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/mkey_source.hh"

#include <cerrno>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/mkc.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::mlx5 {
namespace {

// The input of CREATE_MKEY: the bits that mlx5dv_create_mkey(3) sets, and those of KSM keys and of
// SEND with invalidate, which it has no arguments for. The key begins free.
prm::CreateMkeyIn create_command(const mr::MkeyRequest& request, uint32_t pdn) {
  const bool fixed = request.kind == mr::EntryKind::ksm;
  prm::CreateMkeyIn in{};
  in.opcode = be16{prm::cmd::create_mkey};
  in.mkc.flags = be32{
      prm::mkc::free::at(1) | prm::mkc::umr_en::at(1) | prm::mkc::local_read::at(1) |
      prm::mkc::access_mode_1_0::at(fixed ? prm::mkc::access_mode_ksm : prm::mkc::access_mode_klm)};
  in.mkc.qpn_mkey = be32{prm::mkc::qpn::at(prm::mkey::any_qpn)};
  in.mkc.flags_pd =
      be32{prm::mkc::pd::at(pdn) | prm::mkc::en_rinval::at(request.remote_invalidate ? 1 : 0)};
  in.mkc.translations_octword_size = be32{round_up(request.max_entries, 4)};
  if (request.sign || request.encrypt) {
    in.mkc.flags_pd |= be32{prm::mkc::bsf_en::at(1)};
    in.mkc.bsf_octword_size = be32{(request.sign ? prm::bsf::octowords : 0) +
                                   (request.encrypt ? prm::crypto::octowords : 0)};
  }
  in.mkc.crypto = be32{prm::mkc::crypto_en::at(request.encrypt ? 1 : 0)};
  if (fixed) in.mkc.log_page_size = be32{prm::mkc::log_entity_size::at(request.log_entity_bytes)};
  return in;
}

// Makes one protection signature value (CREATE_PSV). Null: errno tells why.
DevxObject create_psv(ibv_pd* pd, uint32_t pdn, uint32_t& number) {
  prm::CreatePsvIn in{};
  in.hdr.opcode = be16{prm::cmd::create_psv};
  in.count_pd = be32{1u << 28 | pdn};
  prm::CreatePsvOut out{};
  DevxObject made{mlx5dv_devx_obj_create(pd->context, &in, sizeof in, &out, sizeof out)};
  number = out.psv[0].host() & 0xffffff;
  return made;
}

// The protection domain's number, as commands name it.
Result<uint32_t> number_of(ibv_pd* pd) {
  mlx5dv_pd dv{};
  mlx5dv_obj obj{};
  obj.pd.in = pd;
  obj.pd.out = &dv;
  if (const int rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD); rc != 0)
    return Error{rc, "libmlx5 does not tell the protection domain's number"};
  return dv.pdn;
}

}  // namespace

Result<mr::IndirectMkey> VerbsMkeySource::create_key(const mr::MkeyRequest& request, uint32_t pdn) {
  Made made;
  uint32_t memory = 0, wire = 0;
  if (request.sign) {
    made.memory_psv = create_psv(pd_, pdn, memory);
    if (made.memory_psv != nullptr) made.wire_psv = create_psv(pd_, pdn, wire);
    if (made.wire_psv == nullptr) return Error{errno, "the adapter makes no keys to be signed"};
  }
  const prm::CreateMkeyIn in = create_command(request, pdn);
  prm::CreateMkeyOut out{};
  made.key.reset(mlx5dv_devx_obj_create(pd_->context, &in, sizeof in, &out, sizeof out));
  if (made.key == nullptr) return Error{errno, "the adapter makes no further indirect key"};
  const uint32_t index = out.mkey_index.host() & 0xffffff;
  keys_.emplace(index, std::move(made));
  return mr::IndirectMkey{
      Lkey{index << 8}, request.max_entries, request.kind, request.log_entity_bytes, memory, wire};
}

Status VerbsMkeySource::create_mkeys(const mr::MkeyRequest& request,
                                     std::span<mr::IndirectMkey> out) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (max_entries_ == 0) return Error{EOPNOTSUPP, "the adapter makes no indirect keys"};
  if (request.max_entries == 0 || request.max_entries > max_entries_)
    return Error{EINVAL, "a key of so many entries is beyond the adapter's limit"};
  const bool fixed = request.kind == mr::EntryKind::ksm;
  if (fixed && (request.log_entity_bytes < 12 || request.log_entity_bytes > 31))
    return Error{EINVAL, "entries of fixed size span 4 KiB to 2 GiB"};
  Result<uint32_t> pdn = number_of(pd_);
  if (!pdn) return pdn.error();
  for (std::size_t i = 0; i < out.size(); i++) {
    Result<mr::IndirectMkey> key = create_key(request, *pdn);
    if (!key) {
      destroy_mkeys(out.first(i));
      return key.error();
    }
    out[i] = *key;
  }
  return Done{};
}

void VerbsMkeySource::destroy_mkeys(std::span<const mr::IndirectMkey> keys) {
  for (const mr::IndirectMkey& k : keys) keys_.erase(index_of(k.lkey).value());
}

}  // namespace kilim::mlx5
