// SPDX-License-Identifier: BSD-3-Clause
// Memory verbs that libibverbs does not have, or no longer has, under their old names: relaxed
// regions, the experimental verbs for on-demand paging, re-registration with seven arguments,
// memory that the library allocates. They work on the caller's own context, domain and regions. For
// C and C++.
//
// Names that verbs.h uses today with another meaning are different here: the transport bits of
// on-demand paging are enum ibv_exp_odp_transport_cap_bits, re-registration is ibv_exp_rereg_mr(),
// and IBV_ACCESS_ALLOCATE_MR is a bit above 32, as its old bit is IBV_ACCESS_ZERO_BASED now. So old
// programs must be compiled again; their binaries do not fit.
//
// Threads: any thread.
//
// Errors: a call that fails sets errno, and a sentence that kilim_compat_error() returns.
//
// Example:
//   #include <stdio.h>
//   struct ibv_mr* reg(struct ibv_pd* pd, void* memory, size_t bytes) {
//     struct ibv_mr* mr = ibv_reg_mr_relaxed(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
//     if (mr == NULL) fprintf(stderr, "%s\n", kilim_compat_error());
//     return mr;
//   }
#ifndef KILIM_IBV_COMPAT_H
#define KILIM_IBV_COMPAT_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A sentence that says why this thread's last call of a function of this header failed; "": it did
 * not. Never NULL. Valid until the thread's next such call. */
const char* kilim_compat_error(void);

/* ---- Relaxed regions.
 * A relaxed region is registered by a work request (a UMR) on a hidden queue pair of the domain.
 * Queue pair and keys are made at the first use. A region gives access up to the end of its last
 * page. Deregistering only marks it; a flush invalidates it. As with ibv_dereg_mr(), no work that
 * uses the region may be under way when it is deregistered. The memory is pinned, so all transports
 * can use a region, as with ibv_reg_mr(). A region inside an arena (kilim_relaxed_arena()) costs no
 * system call. Other memory is registered as by ibv_reg_mr(), and stays registered until the flush
 * after its region was deregistered. kilim_relaxed_config() chooses on-demand memory instead. */

/* access: IBV_ACCESS_LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ and, if the adapter's UMRs can set it,
 * REMOTE_ATOMIC; optional bits are ignored. NULL: errno is EAGAIN: all keys are in use; EINVAL:
 * range or access; EIO: the adapter refused; ENOMEM, EPERM, EFAULT: as ibv_reg_mr(). The region is
 * for ibv_dereg_mr_relaxed() only. */
struct ibv_mr* ibv_reg_mr_relaxed(struct ibv_pd* pd, void* addr, size_t length, int access);
/* 0 or the value of errno, as for all functions below that return int. EINVAL: not a relaxed
 * region. */
int ibv_dereg_mr_relaxed(struct ibv_mr* mr);
/* Invalidates all regions of the domain that were deregistered. EIO: the adapter does not answer.
 * The hidden objects stay for the next region, and are destroyed with the domain: this library has
 * weak functions ibv_dealloc_pd() and ibv_close_device(), which destroy them and then call
 * libibverbs' own. While relaxed regions are left, ibv_dealloc_pd() returns EBUSY, as with other
 * regions. Link it before libibverbs (-lkilim_compat -libverbs), or call kilim_relaxed_close(). */
int ibv_flush_relaxed_mr(struct ibv_pd* pd);

enum kilim_relaxed_memory {
  KILIM_RELAXED_PINNED = 0,
  /* Regions over one on-demand key of the whole address space. Nothing is pinned; the first access
   * to a page is a page fault of the adapter, and each registration checks that the memory is
   * mapped (madvise(2), and beyond 1 MiB /proc/self/maps). For transports and operations that the
   * adapter can page for: where it cannot, an unreliable queue pair loses data silently. */
  KILIM_RELAXED_ON_DEMAND = 1
};

struct kilim_relaxed_attr {
  uint32_t comp_mask; /* 0 */
  uint32_t keys;      /* made at the first use, and as many again whenever all are used; 0: 1024 */
  uint32_t max_keys;  /* the most keys, then EAGAIN; 0: 65536, or keys if that is more */
  uint32_t memory;    /* enum kilim_relaxed_memory */
  uint32_t qp_types;  /* on demand: queue pairs that use regions, 1 << IBV_QPT_RC | ...; 0: RC */
};

/* Called before the domain's first relaxed region. EBUSY: it has had one. EINVAL: a value out of
 * range. EOPNOTSUPP: the adapter does not page on demand for one of qp_types; the sentence names
 * the capability. */
int kilim_relaxed_config(struct ibv_pd* pd, const struct kilim_relaxed_attr* attr);
/* Called before a queue pair uses a region for the first time, locally or as a peer's target. 0: it
 * can. EOPNOTSUPP: the region is on demand, and the adapter does not page for such a queue pair. */
int kilim_relaxed_usable(const struct ibv_mr* mr, const struct ibv_qp* qp);
/* Makes the memory an arena: its pages are pinned once, and regions inside it cost no system call.
 * The caller promises not to unmap or remap it before kilim_relaxed_arena_end(). EEXIST: an arena
 * begins at addr already. Otherwise as ibv_reg_mr(). */
int kilim_relaxed_arena(struct ibv_pd* pd, void* addr, size_t length);
/* Called before the memory is unmapped. EBUSY: regions lie in the arena; new ones do not any more.
 * EINVAL: no arena begins there. */
int kilim_relaxed_arena_end(struct ibv_pd* pd, void* addr);
/* Destroys the hidden objects, for callers that reach libibverbs' own ibv_dealloc_pd(), as a plugin
 * may. EBUSY: relaxed regions are left, or wait for a flush. */
int kilim_relaxed_close(struct ibv_pd* pd);

/* ---- Capabilities. */
__extension__ enum ibv_exp_device_cap_flags {
  IBV_DEVICE_MW_TYPE_2A = IBV_DEVICE_MEM_WINDOW_TYPE_2A,
  IBV_DEVICE_MW_TYPE_2B = IBV_DEVICE_MEM_WINDOW_TYPE_2B,
  IBV_EXP_DEVICE_MEM_WINDOW = IBV_DEVICE_MEM_WINDOW,
  IBV_EXP_DEVICE_MW_TYPE_2B = IBV_DEVICE_MEM_WINDOW_TYPE_2B,
  IBV_EXP_DEVICE_ODP = 1ULL << 35
};

enum ibv_exp_device_attr_comp_mask {
  IBV_EXP_DEVICE_ATTR_ODP = 1 << 0,
  IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS = 1 << 1,
  IBV_EXP_DEVICE_ATTR_RESERVED = 1 << 2,
  IBV_DEVICE_ATTR_RESERVED = IBV_EXP_DEVICE_ATTR_RESERVED
};

enum ibv_exp_odp_general_cap_bits {
  IBV_EXP_ODP_SUPPORT = 1 << 0,
  IBV_EXP_ODP_SUPPORT_IMPLICIT = 1 << 1
};

enum ibv_exp_odp_transport_cap_bits {
  IBV_EXP_ODP_SUPPORT_SEND = 1 << 0,
  IBV_EXP_ODP_SUPPORT_RECV = 1 << 1,
  IBV_EXP_ODP_SUPPORT_WRITE = 1 << 2,
  IBV_EXP_ODP_SUPPORT_READ = 1 << 3,
  IBV_EXP_ODP_SUPPORT_ATOMIC = 1 << 4,
  IBV_EXP_ODP_SUPPORT_SRQ_RECV = 1 << 5
};

/* raw_eth_odp_caps is always 0: rdma-core and kernel do not report it. */
struct ibv_exp_odp_caps {
  uint64_t general_odp_caps;
  struct {
    uint32_t rc_odp_caps;
    uint32_t uc_odp_caps;
    uint32_t ud_odp_caps;
    uint32_t dc_odp_caps;
    uint32_t xrc_odp_caps;
    uint32_t raw_eth_odp_caps;
  } per_transport_caps;
};

struct ibv_exp_device_attr {
  uint32_t comp_mask; /* in: what is asked for; out: what of it has been filled in */
  uint64_t exp_device_cap_flags;
  struct ibv_exp_odp_caps odp_caps;
};

/* Fills in what attr->comp_mask asks for. EINVAL: NULL; or the error of ibv_query_device(). */
int ibv_exp_query_device(struct ibv_context* context, struct ibv_exp_device_attr* attr);

/* ---- Regions on demand, and memory that the library allocates. */
__extension__ enum ibv_exp_access_flags {
  IBV_EXP_ACCESS_LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
  IBV_EXP_ACCESS_REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
  IBV_EXP_ACCESS_REMOTE_READ = IBV_ACCESS_REMOTE_READ,
  IBV_EXP_ACCESS_REMOTE_ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
  IBV_EXP_ACCESS_MW_BIND = IBV_ACCESS_MW_BIND,
  IBV_EXP_ACCESS_ON_DEMAND = IBV_ACCESS_ON_DEMAND,
  IBV_EXP_ACCESS_ALLOCATE_MR = 1ULL << 40,
  IBV_ACCESS_ALLOCATE_MR = 1ULL << 40
};

/* The whole address space, with address 0 and IBV_EXP_ACCESS_ON_DEMAND. */
__extension__ enum { IBV_EXP_IMPLICIT_MR_SIZE = SIZE_MAX };

struct ibv_exp_reg_mr_in {
  struct ibv_pd* pd;
  void* addr;
  size_t length;
  uint64_t exp_access;
  uint32_t comp_mask; /* 0 */
};

/* Registers an ordinary region, which ibv_dereg_mr() deregisters. With IBV_EXP_ACCESS_ALLOCATE_MR
 * addr is NULL, and the library allocates the memory, in the largest pages that the machine gives,
 * at mr->addr; kilim_compat_dereg_mr() deregisters the region and frees it, while ibv_dereg_mr()
 * leaves it mapped. Not together with on-demand paging (EINVAL). NULL: errno as of ibv_reg_mr(). */
struct ibv_mr* ibv_exp_reg_mr(struct ibv_exp_reg_mr_in* in);
/* Deregisters the region, and frees its memory if the library allocated that. */
int kilim_compat_dereg_mr(struct ibv_mr* mr);

enum ibv_exp_prefetch_flags { IBV_EXP_PREFETCH_WRITE_ACCESS = 1 << 0 };

struct ibv_exp_prefetch_attr {
  uint32_t flags;
  void* addr;
  size_t length;
  uint32_t comp_mask; /* 0 */
};

/* Asks the adapter to map the pages of an on-demand region, the first 64 GiB at most. Best effort:
 * 0 whatever the adapter answers. EINVAL: an argument is wrong, and the adapter was not asked. */
int ibv_exp_prefetch_mr(struct ibv_mr* mr, struct ibv_exp_prefetch_attr* attr);

/* ---- Re-registration. */
struct ibv_rereg_mr_attr {
  uint32_t comp_mask; /* 0 */
};

/* Changes a region as ibv_rereg_mr(). After an error the region is in an undefined state and can
 * only be deregistered. attr: NULL, or all 0. With a change of the translation access may have
 * IBV_ACCESS_ALLOCATE_MR. */
int ibv_exp_rereg_mr(struct ibv_mr* mr, int flags, struct ibv_pd* pd, void* addr, size_t length,
                     uint64_t access, struct ibv_rereg_mr_attr* attr);

/* ---- Not supported: NULL, and errno is EOPNOTSUPP. The functions above give EOPNOTSUPP too for
 * memory of another device (PeerDirect, dma-buf) that cannot be pinned. */
struct ibv_mr* ibv_reg_shared_mr(uint32_t mr_handle, struct ibv_pd* pd, void* addr, int access);

#ifdef __cplusplus
}
#endif

#endif
