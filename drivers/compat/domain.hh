// SPDX-License-Identifier: BSD-3-Clause
// The relaxed regions of one caller's protection domain, and what is hidden in it for them: a queue
// pair connected to itself, its completion queue, keys, arenas. Made at the domain's first relaxed
// region; stays until the domain goes (compat/going.cc).
// Any thread: one mutex a domain, held while the adapter works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <infiniband/verbs.h>

#include "kilim/base/result.hh"
#include "kilim/device/device.hh"
#include "kilim/port/key_queue.hh"
#include "kilim/relaxed/relaxed.hh"

namespace kilim::compat {

struct Settings {
  uint32_t keys = 1024;       // at the first use, and as many again whenever all are in use
  uint32_t max_keys = 65536;  // beyond them EAGAIN
  bool on_demand = false;     // else memory is pinned
  uint32_t qp_types = 1u << IBV_QPT_RC;  // that regions on demand are for
};

class Domain {
 public:
  explicit Domain(ibv_pd* pd) noexcept : pd_(pd), context_(pd->context) {}
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
  // Whatever lives goes too.
  ~Domain();

  // What follows gives 0 or an errno; errno and sentence say why.

  // Before the first region. EBUSY: there has been one. EOPNOTSUPP: a capability is missing.
  int configure(const Settings& settings);
  // Null: errno and sentence say why.
  ibv_mr* register_memory(void* memory, std::size_t bytes, int access);
  int deregister(ibv_mr* mr);
  int flush();
  // Memory of which the caller says that it stays what it is until end_arena().
  int add_arena(void* memory, std::size_t bytes);
  int end_arena(void* memory);
  // EOPNOTSUPP: the region is on demand, and the adapter does not page for such a queue pair.
  int usable(const ibv_mr* mr, const ibv_qp* qp);

  [[nodiscard]] const ibv_context* context() const noexcept { return context_; }
  // The caller's domain goes. False: regions live, or wait for a flush; then all stays.
  bool close();

 private:
  struct Live {
    ibv_mr mr{};
    relaxed::Region region;
  };
  Status open();
  Status open_engine();
  relaxed::Answer append(const relaxed::Relaxed::Request& r, relaxed::Region& region);
  relaxed::Answer append_or_make_room(const relaxed::Relaxed::Request& r, relaxed::Region& region);
  int refuse(const relaxed::Relaxed::Request& r, relaxed::Answer why);
  bool grow();
  bool settle();
  void recover();
  void drop_all() noexcept;

  std::mutex mutex_;
  ibv_pd* pd_;
  ibv_context* context_;
  Settings settings_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<port::KeyQueue> queue_;
  std::unique_ptr<relaxed::Relaxed> engine_;
  std::unordered_map<const ibv_mr*, std::unique_ptr<Live>> live_;
  std::map<const void*, mr::Mr> arenas_;  // of the caller's word
};

}  // namespace kilim::compat
