// SPDX-License-Identifier: BSD-3-Clause
// Domain: the relaxed regions of one caller's protection domain, and the objects that they need
// there: a queue pair connected to itself, its completion queue, mkeys, arenas. Made for the first
// relaxed region; destroyed with the protection domain (compat/going.cc). Any thread: one mutex for
// each domain, held while waiting for the adapter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <infiniband/verbs.h>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/device.hh"
#include "kilim/detail/port/mkey_queue.hh"
#include "kilim/detail/port/retry.hh"
#include "kilim/detail/relaxed/relaxed.hh"

namespace kilim::compat {

struct Settings {
  uint32_t keys = 1024;                  // keys made at first, and again whenever all are in use
  uint32_t max_keys = 65536;             // limit of keys; then EAGAIN
  bool on_demand = false;                // false: memory is pinned
  uint32_t qp_types = 1u << IBV_QPT_RC;  // queue pair types for which on-demand regions are meant
};

class Domain {
 public:
  explicit Domain(ibv_pd* pd) noexcept : pd_(pd), context_(pd->context) {}
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
  // Destroys everything, live regions included.
  ~Domain();

  // The functions below return 0 or an errno value, which is also in errno, and set the sentence.

  // Called before the first region. EBUSY: there is one. EOPNOTSUPP: a capability is missing.
  int configure(const Settings& settings);
  // Null: errno and the sentence tell why.
  ibv_mr* register_memory(void* memory, std::size_t bytes, int access);
  int deregister(ibv_mr* mr);
  int flush();
  // Adds memory that the caller promises not to remap until end_arena().
  int add_arena(void* memory, std::size_t bytes);
  int end_arena(void* memory);
  // Whether the queue pair may use the region. EOPNOTSUPP: it is on demand, and the adapter does
  // not page for such a queue pair.
  int usable(const ibv_mr* mr, const ibv_qp* qp);

  [[nodiscard]] const ibv_context* context() const noexcept { return context_; }
  // Called when the caller destroys the protection domain. False: regions are live or wait for a
  // flush, and everything stays.
  bool close();

 private:
  struct Live {
    ibv_mr mr{};
    relaxed::Region region;
  };
  int open_once();
  Status open();
  Status open_engine();
  relaxed::Answer append(const relaxed::Relaxed::Request& r, relaxed::Region& region);
  relaxed::Answer append_or_make_room(const relaxed::Relaxed::Request& r, relaxed::Region& region);
  ibv_mr* adopt(std::unique_ptr<Live> live);
  int refuse(const relaxed::Relaxed::Request& r, relaxed::Answer why);
  bool grow();
  bool settle();
  bool recover();
  bool is_up();
  void drop_all() noexcept;

  std::mutex mutex_;
  ibv_pd* pd_;
  ibv_context* context_;
  Settings settings_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<port::MkeyQueue> queue_;
  // The last recovery of the queue failed: nothing is posted there before one succeeds.
  bool down_ = false;
  port::Retry retry_;  // of that
  std::unique_ptr<relaxed::Relaxed> engine_;
  std::unordered_map<const ibv_mr*, std::unique_ptr<Live>> live_;
  std::map<const void*, mr::Mr> arenas_;  // added by add_arena()
};

}  // namespace kilim::compat
