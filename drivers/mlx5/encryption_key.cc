// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/encryption_key.hh"

#include <cerrno>
#include <cstring>

#include <infiniband/mlx5dv.h>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/crypto_seg.hh"

namespace kilim::mlx5 {

Result<EncryptionKey> EncryptionKey::create(ibv_pd* pd, std::span<const std::byte> keys,
                                            std::optional<Tag> tag) {
  if (keys.size() != 32 && keys.size() != 64)
    return Error{EINVAL, "AES-XTS takes two keys of 16 bytes, or two of 32"};
  mlx5dv_pd number{};
  mlx5dv_obj obj{};
  obj.pd = {pd, &number};
  if (const int rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD); rc != 0)
    return Error{rc, "libmlx5 does not tell the protection domain's number"};
  struct {
    prm::CmdInHdr hdr;
    uint8_t reserved[8];
    prm::DekObject object;
  } in{};
  in.hdr.opcode = be16{prm::cmd::create_general_object};
  in.hdr.op_mod = be16{prm::cmd::object_dek};
  in.object.key_size = keys.size() == 64 ? prm::dek::size_256 : prm::dek::size_128;
  in.object.tag_purpose = static_cast<uint8_t>(prm::dek::aes_xts | (tag ? prm::dek::has_tag : 0));
  in.object.pd = be32{number.pdn};
  std::memcpy(in.object.key, keys.data(), keys.size());
  if (tag) std::memcpy(in.object.key + keys.size(), tag->data(), tag->size());
  struct {
    prm::CmdOutHdr hdr;
    be32 number, reserved;
  } out{};
  DevxObject made{mlx5dv_devx_obj_create(pd->context, &in, sizeof in, &out, sizeof out)};
  if (made == nullptr) return Error{errno, "the adapter takes no encryption key"};
  return EncryptionKey{std::move(made), out.number.host()};
}

}  // namespace kilim::mlx5
