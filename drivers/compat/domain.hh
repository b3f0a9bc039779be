// SPDX-License-Identifier: BSD-3-Clause
// The relaxed regions of one caller's protection domain, and what is hidden in it for them: a queue
// pair connected to itself, its completion queue, keys, arenas. Made at the domain's first relaxed
// region; goes with a flush when none is left.
// Any thread: one mutex a domain, held while the adapter works.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <infiniband/verbs.h>

#include "kilim/base/result.hh"
#include "kilim/device/device.hh"
#include "kilim/port/key_queue.hh"
#include "kilim/relaxed/relaxed.hh"

namespace kilim::compat {

class Domain {
 public:
  explicit Domain(ibv_pd* pd) noexcept : pd_(pd) {}
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
  ~Domain();

  // Null: errno and sentence say why. `gone`: the domain has been closed meanwhile, ask anew.
  ibv_mr* register_memory(void* memory, std::size_t bytes, int access, bool& gone);
  int deregister(ibv_mr* mr);
  // `closed`: nothing is left, and the hidden objects are gone.
  int flush(bool& closed);

 private:
  struct Live {
    ibv_mr mr{};
    relaxed::Region region;
  };
  Status open();
  Status open_engine();
  relaxed::Answer append(const relaxed::Relaxed::Request& r, relaxed::Region& region);
  bool settle();
  void recover();
  void close() noexcept;

  std::mutex mutex_;
  ibv_pd* pd_;
  bool closed_ = false;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<port::KeyQueue> queue_;
  std::unique_ptr<relaxed::Relaxed> engine_;
  std::unordered_map<const ibv_mr*, std::unique_ptr<Live>> live_;
};

}  // namespace kilim::compat
