// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_TIR", "ALLOC_TRANSPORT_DOMAIN". A hash target that firmware commands make over a
// table that verbs made: a TIR that joins TCP segments (LRO). Verbs cannot ask for that, and DevX
// may not change the TIR of a hash queue pair (Linux drivers/infiniband/hw/mlx5/devx.c,
// devx_is_valid_obj_id()). Control path only.
#pragma once

#include <cstdint>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/caps.hh"
#include "kilim/detail/device/receive.hh"
#include "mlx5/firmware.hh"

namespace kilim::mlx5 {

// What an adapter can join; nothing where its firmware does not answer.
device::LroCaps read_lro_caps(ibv_context* context);

// What the TIRs of a context lie in.
Result<FirmwareObject> create_transport_domain(ibv_context* context);

// The table of a TIR, by ibv_rwq_ind_table::ind_tbl_num, and its transport domain.
struct TirPlace {
  uint32_t table = 0;
  uint32_t domain = 0;
};
// The TIR of a request with request.lro.
Result<FirmwareObject> create_tir(ibv_context* context, const device::HashQpRequest& request,
                                  TirPlace place, const device::LroCaps& caps);

}  // namespace kilim::mlx5
