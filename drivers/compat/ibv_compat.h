// SPDX-License-Identifier: BSD-3-Clause
// Memory verbs that libibverbs does not have, or no longer has, under their old names and working
// on a caller's own context, domain and regions, for C and C++: relaxed regions, the experimental
// verbs for on-demand paging, re-registration with seven arguments, memory that the library
// allocates. Any thread. A call that fails gives errno as its manual page says, and a sentence
// besides.
//
// Names that verbs.h uses today with another meaning have a new one here: the transport bits of
// on-demand paging are an enum ibv_exp_odp_transport_cap_bits, re-registration is
// ibv_exp_rereg_mr(), and IBV_ACCESS_ALLOCATE_MR lies beyond 32 bits, since its old bit is
// IBV_ACCESS_ZERO_BASED now. Programs are compiled anew; no old binary fits.
#ifndef KILIM_IBV_COMPAT_H
#define KILIM_IBV_COMPAT_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why the last call of this thread failed, "" where it did not; never NULL. Valid until the
 * thread's next call of a function of this header. */
const char* kilim_compat_error(void);

/* ---- Relaxed regions.
 * Registered by a work request on a hidden queue pair of the domain, made at the first use together
 * with its keys. Access reaches to the last page's boundary. Deregistering only marks; a flush
 * invalidates. As with ibv_dereg_mr() no work may be under way that names the region.
 * Memory is pinned, so a region is good for every transport that ibv_reg_mr()'s are. What an arena
 * covers costs no call of the system; other memory is registered as by ibv_reg_mr() and stays so
 * until the flush behind its region's end. kilim_relaxed_config() chooses memory on demand instead.
 * access: IBV_ACCESS_LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ and, where UMRs can give it,
 * REMOTE_ATOMIC; optional bits are ignored. EAGAIN: all keys are in use. EINVAL: range or access.
 * ENOMEM, EPERM, EFAULT: as ibv_reg_mr(). The region is for ibv_dereg_mr_relaxed() only. */
struct ibv_mr* ibv_reg_mr_relaxed(struct ibv_pd* pd, void* addr, size_t length, int access);
/* EINVAL: not a relaxed region. */
int ibv_dereg_mr_relaxed(struct ibv_mr* mr);
/* The hidden objects stay for the next region. They go with the domain: this library has a weak
 * ibv_dealloc_pd() and ibv_close_device() before libibverbs' own, and while no relaxed region is
 * left in a domain (else EBUSY, as with other regions) the former removes them first. Link it
 * before libibverbs (-lkilim_compat -libverbs); who cannot calls kilim_relaxed_close(). */
int ibv_flush_relaxed_mr(struct ibv_pd* pd);

enum kilim_relaxed_memory {
  KILIM_RELAXED_PINNED = 0,
  /* One key of the whole address space. Nothing is pinned; a page's first access is a fault of the
   * adapter's, and each registration looks whether the memory is there (madvise(), and beyond 1 MiB
   * /proc/self/maps). Good for what the adapter pages: where it does not, an unreliable queue pair
   * loses data and says nothing. */
  KILIM_RELAXED_ON_DEMAND = 1
};

struct kilim_relaxed_attr {
  uint32_t comp_mask; /* 0 */
  uint32_t keys;      /* made at the first use, and as many again whenever all are used; 0: 1024 */
  uint32_t max_keys;  /* beyond which EAGAIN; 0: 65536, or keys if that is more */
  uint32_t memory;    /* enum kilim_relaxed_memory */
  uint32_t qp_types;  /* on demand: 1 << IBV_QPT_RC | ..., what regions are for; 0: RC */
};

/* Before the domain's first relaxed region. EBUSY: it has had one. EOPNOTSUPP: the adapter does not
 * page on demand for one of qp_types; the sentence names the capability. */
int kilim_relaxed_config(struct ibv_pd* pd, const struct kilim_relaxed_attr* attr);
/* To be asked when a queue pair is to use a region for the first time, by either side. 0, or
 * EOPNOTSUPP: the region is on demand and the adapter does not page for such a queue pair. */
int kilim_relaxed_usable(const struct ibv_mr* mr, const struct ibv_qp* qp);
/* The caller's word that this memory stays mapped as it is: its pages are pinned once, and regions
 * inside cost no call of the system. EEXIST: an arena begins at addr already. Else as ibv_reg_mr().
 */
int kilim_relaxed_arena(struct ibv_pd* pd, void* addr, size_t length);
/* To be called before the memory is unmapped. EBUSY: regions lie in the arena; it takes no more. */
int kilim_relaxed_arena_end(struct ibv_pd* pd, void* addr);
/* What ibv_dealloc_pd() does first, for who calls libibverbs' own, as from a plugin. EBUSY: relaxed
 * regions are left. */
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

/* 0 or the value of errno. */
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

/* An ordinary region, for ibv_dereg_mr(). With IBV_EXP_ACCESS_ALLOCATE_MR addr is NULL, the memory
 * is found at mr->addr in the largest pages that the machine gives, and it is for
 * kilim_compat_dereg_mr(): ibv_dereg_mr() leaves it mapped. Not together with on-demand paging. */
struct ibv_mr* ibv_exp_reg_mr(struct ibv_exp_reg_mr_in* in);
/* ibv_dereg_mr(), and the end of the memory that the library allocated for the region. */
int kilim_compat_dereg_mr(struct ibv_mr* mr);

enum ibv_exp_prefetch_flags { IBV_EXP_PREFETCH_WRITE_ACCESS = 1 << 0 };

struct ibv_exp_prefetch_attr {
  uint32_t flags;
  void* addr;
  size_t length;
  uint32_t comp_mask; /* 0 */
};

/* Best effort: whatever the adapter answers, 0. Of a longer piece its first 64 GiB. EINVAL: an
 * argument that no adapter is asked about. */
int ibv_exp_prefetch_mr(struct ibv_mr* mr, struct ibv_exp_prefetch_attr* attr);

/* ---- Re-registration. */
struct ibv_rereg_mr_attr {
  uint32_t comp_mask; /* 0 */
};

/* 0 or the value of errno, and then the region is in an undefined state and is to be deregistered.
 * attr: NULL, or all 0. access may have IBV_ACCESS_ALLOCATE_MR with a change of the translation. */
int ibv_exp_rereg_mr(struct ibv_mr* mr, int flags, struct ibv_pd* pd, void* addr, size_t length,
                     uint64_t access, struct ibv_rereg_mr_attr* attr);

/* ---- Not here: NULL, EOPNOTSUPP. Where memory of another device (PeerDirect, dma-buf) cannot be
 * pinned, the functions above say EOPNOTSUPP. */
struct ibv_mr* ibv_reg_shared_mr(uint32_t mr_handle, struct ibv_pd* pd, void* addr, int access);

#ifdef __cplusplus
}
#endif

#endif
