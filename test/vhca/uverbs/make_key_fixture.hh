// SPDX-License-Identifier: BSD-3-Clause
// CREATE_MKEY by DevX, for tests of it. Owner: one test case.
#pragma once

#include "kilim/prm/mkc.hh"
#include "request_fixture.hh"

namespace kilim::test {

inline int create_mkey(Client& c, const prm::CreateMkeyIn& in, uint8_t* out, uint32_t& handle) {
  Ioctl io(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE);
  io.handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE)
      .raw(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, sizeof in, reinterpret_cast<uintptr_t>(&in))
      .raw(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, 16, reinterpret_cast<uintptr_t>(out));
  int err = io.run(*c.file);
  handle = static_cast<uint32_t>(io.attr(0).data);
  return err;
}

}  // namespace kilim::test
