// SPDX-License-Identifier: BSD-3-Clause
// Tables of receive queues (ibv_create_rwq_ind_table), by the older commands. Checked as Linux
// drivers/infiniband/core/uverbs_cmd.c and drivers/infiniband/hw/mlx5/qp.c do
// (ib_uverbs_ex_create_rwq_ind_table(), mlx5_ib_create_rwq_ind_table()). Adapter's lock held.
#include <cerrno>
#include <memory>

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

// The handles behind the command, in words of 8 bytes: what the last one has too many is zero.
int read_handles(Context& context, const Request& r, std::size_t count, RwqTableObject& table) {
  constexpr std::size_t at = sizeof(ib_uverbs_ex_create_rwq_ind_table);
  if (r.in.bytes() < at + count * sizeof(uint32_t))
    return refusal::bytes("the command with its table", r.in.bytes(), at + count * sizeof(uint32_t),
                          ENOSPC);
  std::vector<uint32_t> handles(count);
  if (int err = r.in.read(handles.data(), count * sizeof(uint32_t), at); err != 0) return err;
  if (int err = r.in.zero_from(at + count * sizeof(uint32_t)); err != 0) return err;
  for (uint32_t handle : handles) {
    table.queues.push_back(context.find<WqObject>(handle));
    if (table.queues.back() == nullptr) return refusal::absent("ind_tbl", handle);
  }
  return 0;
}

int check_driver_part(const Request& r) {
  if (int err = r.driver_in.zero_from(0); err != 0) return err;
  const uint32_t room = r.driver_out.bytes();
  return room != 0 && room < sizeof(mlx5_ib_create_rwq_ind_tbl_resp)
             ? refusal::bytes("mlx5_ib_create_rwq_ind_tbl_resp", room,
                              sizeof(mlx5_ib_create_rwq_ind_tbl_resp))
             : 0;
}

}  // namespace

int RwqTableObject::release(Context& context) {
  if (int err = hca::destroy_rqt(context.hca, rqtn); err != 0) return err;
  for (WqObject* wq : queues) wq->users--;
  return 0;
}

int cmd_create_rwq_table(Context& context, const Request& r) {
  if (!context.hca.config.profile.raw_packet)
    return refusal::lacks("a queue or rule of raw packets");
  struct {
    uint32_t comp_mask, log_size;
  } cmd;
  static_assert(sizeof cmd == sizeof(ib_uverbs_ex_create_rwq_ind_table));
  if (int err = r.in.read(cmd); err != 0) return err;
  if (cmd.comp_mask != 0) return refusal::bits("comp_mask", cmd.comp_mask, 0, EOPNOTSUPP);
  if (cmd.log_size > IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE)
    return refusal::most("log_ind_tbl_size", cmd.log_size, IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE);
  auto made = std::make_unique<RwqTableObject>();
  RwqTableObject& table = *made;
  if (int err = read_handles(context, r, std::size_t{1} << cmd.log_size, table); err != 0)
    return err;
  if (int err = check_driver_part(r); err != 0) return err;
  std::vector<uint32_t> rqns;
  for (const WqObject* wq : table.queues) rqns.push_back(wq->rqn);
  Result<uint32_t> rqtn = hca::create_rqt(context.hca, rqns, &context);
  if (!rqtn) return refusal::of(rqtn.error());
  table.rqtn = *rqtn;
  for (WqObject* wq : table.queues) wq->users++;
  context.add(std::move(made), {});
  int err = r.driver_out.write(mlx5_ib_create_rwq_ind_tbl_resp{4, 0});  // response_length itself
  const ib_uverbs_ex_create_rwq_ind_table_resp resp{0, sizeof resp, table.handle, table.rqtn};
  if (err == 0) err = r.out.write(resp);
  return context.keep_unless(err, table);
}

int cmd_destroy_rwq_table(Context& context, const Request& r) {
  ib_uverbs_ex_destroy_rwq_ind_table cmd;
  if (int err = r.in.read_whole(cmd); err != 0) return err;
  return cmd.comp_mask != 0 ? refusal::bits("comp_mask", cmd.comp_mask, 0, EOPNOTSUPP)
                            : destroy_handle<RwqTableObject>(context, cmd.ind_tbl_handle);
}

}  // namespace kilim::vhca::uverbs
