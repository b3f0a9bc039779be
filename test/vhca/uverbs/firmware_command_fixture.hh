// SPDX-License-Identifier: BSD-3-Clause
// Firmware commands through DevX, as a client's library hands them in: a command's bytes field by
// field, and memory entered as a umem. For tests of the uverbs room, on the thread that runs them;
// they own what they make and end it themselves, or leave it to the open's end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <rdma/mlx5_user_ioctl_verbs.h>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/queue_cmd.hh"
#include "request_fixture.hh"

namespace kilim::test {

// A command in the client's memory, field by field.
struct Command {
  explicit Command(uint16_t opcode, std::size_t bytes = prm::queue_cmd::bytes) : in(bytes) {
    in[0] = static_cast<uint8_t>(opcode >> 8);
    in[1] = static_cast<uint8_t>(opcode);
  }
  Command& set(std::size_t at, prm::CapField f, uint32_t value) {
    prm::cap_set(std::as_writable_bytes(std::span(in)).subspan(at), f, value);
    return *this;
  }
  Command& set64(std::size_t at, uint64_t value) {
    const be64 v{value};
    std::memcpy(in.data() + at, &v, sizeof v);
    return *this;
  }
  Command& set32(std::size_t at, uint32_t value) {
    const be32 v{value};
    std::memcpy(in.data() + at, &v, sizeof v);
    return *this;
  }
  Command& number(uint32_t value) {  // of the object that is meant
    return set32(8, value);
  }
  [[nodiscard]] uint32_t made() const {
    be32 v;
    std::memcpy(&v, out.data() + 8, sizeof v);
    return v.host() & 0xffffff;
  }
  int make(Client& c) {
    Ioctl io(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE);
    const int err = finish(c, io.handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE),
                           MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
    handle = static_cast<uint32_t>(io.attr(0).data);
    return err;
  }
  int change(Client& c, uint32_t of) {
    Ioctl io(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY);
    return finish(c, io.handle(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, of),
                  MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN);
  }
  int ask(Client& c, uint32_t of) {
    Ioctl io(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY);
    return finish(c, io.handle(MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, of),
                  MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN);
  }
  [[nodiscard]] uint32_t answer(std::size_t at, prm::CapField f) const {
    return prm::cap_get(std::as_bytes(std::span(out)).subspan(at), f);
  }

  std::vector<uint8_t> in;
  std::vector<uint8_t> out = std::vector<uint8_t>(prm::queue_cmd::bytes);
  uint32_t handle = 0;

 private:
  int finish(Client& c, Ioctl& io, uint16_t id) {
    return io.raw(id, static_cast<uint16_t>(in.size()), reinterpret_cast<uintptr_t>(in.data()))
        .raw(static_cast<uint16_t>(id + 1), static_cast<uint16_t>(out.size()),
             reinterpret_cast<uintptr_t>(out.data()))
        .run(*c.file);
  }
};

inline int end(Client& c, uint32_t handle) {
  return c.destroy(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
                   MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, handle);
}

// A page of rings, the doorbell records behind `record`.
template <uint64_t behind>
struct RingMemory {
  static constexpr uint64_t record = behind;
  alignas(4096) std::array<std::byte, 4096> bytes{};
  uint32_t handle = 0, number = 0;

  int enter(Client& c, uint64_t length = 4096, uint32_t access = IB_UVERBS_ACCESS_LOCAL_WRITE) {
    Ioctl io(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG);
    const int err = io.handle(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE)
                        .in(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, reinterpret_cast<uint64_t>(&bytes))
                        .in(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, length)
                        .in(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, access)
                        .out(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, number)
                        .run(*c.file);
    handle = static_cast<uint32_t>(io.attr(0).data);
    return err;
  }
  int leave(Client& c) const {
    return c.destroy(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG,
                     MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, handle);
  }
};

}  // namespace kilim::test
