// SPDX-License-Identifier: BSD-3-Clause
#include "refused_states_fixture.hh"

#include <cerrno>

#include <dlfcn.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

namespace kilim::test {
namespace {

int (*true_modify_wq)(ibv_wq*, ibv_wq_attr*) = nullptr;

bool refused() {
  refused_states.asked++;
  if (refused_states.left == 0) return false;
  refused_states.left--;
  return true;
}

int modify_wq(ibv_wq* wq, ibv_wq_attr* attr) {
  const bool reset = (attr->attr_mask & IBV_WQ_ATTR_STATE) != 0 && attr->wq_state == IBV_WQS_RESET;
  return reset && refused() ? ENOMEM : true_modify_wq(wq, attr);
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

RefusedStates refused_states;

}  // namespace kilim::test

// In front of libibverbs' and libmlx5's.
extern "C" {

[[gnu::visibility("default")]] int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  const bool reset = (mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RESET;
  if (reset && kilim::test::refused()) return ENOMEM;
  return kilim::test::next<int(ibv_qp*, ibv_qp_attr*, int)>("ibv_modify_qp")(qp, attr, mask);
}

// ibv_modify_wq() is inline and calls what the context names (infiniband/verbs.h).
[[gnu::visibility("default")]] ibv_wq* mlx5dv_create_wq(ibv_context* context,
                                                        ibv_wq_init_attr* attr,
                                                        mlx5dv_wq_init_attr* mlx5) {
  using kilim::test::true_modify_wq;
  verbs_context* const verbs = verbs_get_ctx(context);
  if (verbs->modify_wq != kilim::test::modify_wq) {
    true_modify_wq = verbs->modify_wq;
    verbs->modify_wq = kilim::test::modify_wq;
  }
  using Create = ibv_wq*(ibv_context*, ibv_wq_init_attr*, mlx5dv_wq_init_attr*);
  return kilim::test::next<Create>("mlx5dv_create_wq")(context, attr, mlx5);
}
}
