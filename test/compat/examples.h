// SPDX-License-Identifier: BSD-3-Clause
// The examples of the user's documents, each a function in C with what the example leaves open as
// arguments. Test code.
#ifndef KILIM_TEST_COMPAT_EXAMPLES_H
#define KILIM_TEST_COMPAT_EXAMPLES_H

#include "kilim/ibv_compat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "To verify whether ODP is supported, run ibv_exp_query_device": 1 yes, 0 no, negative an error.
 */
int example_odp_supported(struct ibv_context* context, struct ibv_exp_device_attr* out);
/* "For example, to check whether RC supports Send operation". */
int example_rc_sends(const struct ibv_exp_device_attr* attr);
/* "Registering ODP Explicit MR". */
struct ibv_mr* example_explicit(struct ibv_pd* pd, void* buf, size_t size);
/* "To register an Implicit ODP MR ... use in->addr = 0 and in->length = IBV_EXP_IMPLICIT_MR_SIZE".
 */
struct ibv_mr* example_implicit(struct ibv_pd* pd);
/* "De-registering ODP MR". */
int example_dereg(struct ibv_mr* mr);
/* "Advice MR Verb": the prefetch. */
int example_prefetch(struct ibv_mr* mr, void* addr, size_t length);
/* "Memory Region Re-registration", with memory of the caller's and of the library's. */
int example_rereg(struct ibv_mr* mr, struct ibv_pd* pd, void* addr, size_t length);
int example_rereg_allocates(struct ibv_mr* mr, size_t length);
/* "Query Capabilities" of memory windows. */
int example_windows_supported(struct ibv_context* context);
/* "Memory Window Allocation" and "Deallocating Memory Window". */
int example_window(struct ibv_pd* pd, int type_2);
/* The synopsis of relaxed regions: registered, deregistered, flushed. */
struct ibv_mr* example_relaxed(struct ibv_pd* pd, void* addr, size_t length);
int example_relaxed_end(struct ibv_mr* mr);
int example_relaxed_flush(struct ibv_pd* pd);
/* The synopsis of ibv_advise_mr(). */
int example_advise(struct ibv_mr* mr, void* addr, uint32_t length);

#ifdef __cplusplus
}
#endif

#endif
