// SPDX-License-Identifier: BSD-3-Clause
// Names the call of a program for which rdma-core sends one of these commands. Any thread.
#include "vhca/uverbs/verb_names.hh"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

namespace kilim::vhca::uverbs {

namespace {

constexpr uint32_t ex = IB_USER_VERBS_CMD_FLAG_EXTENDED;

struct WriteName {
  uint32_t command;
  const char* name;
};
constexpr WriteName write_names[] = {
    {IB_USER_VERBS_CMD_GET_CONTEXT, "ibv_open_device"},
    {IB_USER_VERBS_CMD_QUERY_DEVICE, "ibv_query_device"},
    {IB_USER_VERBS_CMD_QUERY_PORT, "ibv_query_port"},
    {IB_USER_VERBS_CMD_ALLOC_PD, "ibv_alloc_pd"},
    {IB_USER_VERBS_CMD_DEALLOC_PD, "ibv_dealloc_pd"},
    {IB_USER_VERBS_CMD_CREATE_AH, "ibv_create_ah"},
    {IB_USER_VERBS_CMD_DESTROY_AH, "ibv_destroy_ah"},
    {IB_USER_VERBS_CMD_REG_MR, "ibv_reg_mr"},
    {IB_USER_VERBS_CMD_DEREG_MR, "ibv_dereg_mr"},
    {IB_USER_VERBS_CMD_REREG_MR, "ibv_rereg_mr"},
    {IB_USER_VERBS_CMD_ALLOC_MW, "ibv_alloc_mw"},
    {IB_USER_VERBS_CMD_DEALLOC_MW, "ibv_dealloc_mw"},
    {IB_USER_VERBS_CMD_RESIZE_CQ, "ibv_resize_cq"},
    {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, "ibv_create_comp_channel"},
    {IB_USER_VERBS_CMD_CREATE_CQ, "ibv_create_cq"},
    {IB_USER_VERBS_CMD_DESTROY_CQ, "ibv_destroy_cq"},
    {IB_USER_VERBS_CMD_CREATE_QP, "ibv_create_qp"},
    {IB_USER_VERBS_CMD_OPEN_QP, "ibv_open_qp"},
    {IB_USER_VERBS_CMD_QUERY_QP, "ibv_query_qp"},
    {IB_USER_VERBS_CMD_MODIFY_QP, "ibv_modify_qp"},
    {IB_USER_VERBS_CMD_DESTROY_QP, "ibv_destroy_qp"},
    {IB_USER_VERBS_CMD_ATTACH_MCAST, "ibv_attach_mcast"},
    {IB_USER_VERBS_CMD_DETACH_MCAST, "ibv_detach_mcast"},
    {IB_USER_VERBS_CMD_CREATE_SRQ, "ibv_create_srq"},
    {IB_USER_VERBS_CMD_CREATE_XSRQ, "ibv_create_srq_ex"},
    {IB_USER_VERBS_CMD_MODIFY_SRQ, "ibv_modify_srq"},
    {IB_USER_VERBS_CMD_QUERY_SRQ, "ibv_query_srq"},
    {IB_USER_VERBS_CMD_DESTROY_SRQ, "ibv_destroy_srq"},
    {IB_USER_VERBS_CMD_OPEN_XRCD, "ibv_open_xrcd"},
    {IB_USER_VERBS_CMD_CLOSE_XRCD, "ibv_close_xrcd"},
    {ex | IB_USER_VERBS_EX_CMD_QUERY_DEVICE, "ibv_query_device"},
    {ex | IB_USER_VERBS_EX_CMD_CREATE_CQ, "ibv_create_cq"},
    {ex | IB_USER_VERBS_EX_CMD_MODIFY_CQ, "ibv_modify_cq"},
    {ex | IB_USER_VERBS_EX_CMD_CREATE_QP, "ibv_create_qp"},
    {ex | IB_USER_VERBS_EX_CMD_MODIFY_QP, "ibv_modify_qp"},
    {ex | IB_USER_VERBS_EX_CMD_CREATE_WQ, "ibv_create_wq"},
    {ex | IB_USER_VERBS_EX_CMD_MODIFY_WQ, "ibv_modify_wq"},
    {ex | IB_USER_VERBS_EX_CMD_DESTROY_WQ, "ibv_destroy_wq"},
    {ex | IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, "ibv_create_rwq_ind_table"},
    {ex | IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL, "ibv_destroy_rwq_ind_table"},
    {ex | IB_USER_VERBS_EX_CMD_CREATE_FLOW, "ibv_create_flow"},
    {ex | IB_USER_VERBS_EX_CMD_DESTROY_FLOW, "ibv_destroy_flow"},
};

struct MethodName {
  uint16_t object, method;
  const char* name;
};
constexpr MethodName method_names[] = {
    {UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, "ibv_advise_mr"},
    {UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, "ibv_destroy_ah"},
    {UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE, "ibv_create_counters"},
    {UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY, "ibv_destroy_counters"},
    {UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ, "ibv_read_counters"},
    {UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, "ibv_create_cq"},
    {UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, "ibv_destroy_cq"},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, "ibv_open_device"},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, "ibv_import_device"},
    {UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, "ibv_open_device"},
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_EQN, "mlx5dv_devx_query_eqn"},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY, "mlx5dv_devx_obj_query"},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY, "mlx5dv_devx_obj_query_async"},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, "mlx5dv_devx_obj_modify"},
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, "mlx5dv_devx_general_cmd"},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE, "mlx5dv_devx_obj_create"},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, "mlx5dv_devx_obj_destroy"},
    {MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD, MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC,
     "mlx5dv_devx_create_cmd_comp"},
    {MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC,
     "mlx5dv_devx_create_event_channel"},
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT, "mlx5dv_devx_subscribe_devx_event"},
    {MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG, "mlx5dv_devx_umem_reg"},
    {MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG, "mlx5dv_devx_umem_dereg"},
    {UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, "ibv_alloc_dm"},
    {UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, "ibv_free_dm"},
    {UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_QUERY, "ibv_import_dm"},
    {UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_MAP_OP_ADDR, "mlx5dv_dm_map_op_addr"},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, "ibv_reg_dm_mr"},
    {UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY, "ibv_destroy_flow"},
    {UVERBS_OBJECT_FLOW_ACTION, MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT,
     "mlx5dv_create_flow_action_packet_reformat"},
    {UVERBS_OBJECT_FLOW_ACTION, MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER,
     "mlx5dv_create_flow_action_modify_header"},
    {UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY, "ibv_destroy_flow_action"},
    {MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE, "mlx5dv_create_flow_matcher"},
    {MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY,
     "mlx5dv_destroy_flow_matcher"},
    {UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, "mlx5dv_create_flow"},
    {UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_DESTROY_FLOW, "ibv_destroy_flow"},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, "ibv_dereg_mr"},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, "ibv_import_mr"},
    {UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, "ibv_dealloc_mw"},
    {UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, "ibv_dealloc_pd"},
    {UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY, "ibv_import_pd"},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, "ibv_query_port"},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY + 1, "ibv_query_port_speed"},
    {UVERBS_OBJECT_DEVICE, MLX5_IB_METHOD_QUERY_PORT, "mlx5dv_query_port"},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, "ibv_query_gid_ex"},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, "ibv_query_gid_table"},
    {UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, "ibv_create_qp"},
    {UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, "ibv_destroy_qp"},
    {MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, "mlx5dv_devx_alloc_uar"},
    {MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, "mlx5dv_devx_free_uar"},
};

}  // namespace

const char* verb_name(uint32_t command) noexcept {
  for (const WriteName& w : write_names) {
    if (w.command == command) return w.name;
  }
  return "a verbs command that is not known here";
}

const char* verb_name(uint16_t object, uint16_t method) noexcept {
  for (const MethodName& m : method_names) {
    if (m.object == object && m.method == method) return m.name;
  }
  return "a verbs ioctl that is not known here";
}

}  // namespace kilim::vhca::uverbs
