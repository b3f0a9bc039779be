// SPDX-License-Identifier: BSD-3-Clause
// The rig of comparisons: one virtual device in this process with two queue pairs, created alike
// and each connected to itself. Kilim writes one, libmlx5 the other, in a thread domain so that
// neither side locks. The caller runs the device. One thread; only set-up allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "kilim/queue.hh"
#include "mlx5/handle.hh"
#include "vhca/entry/attach.hh"

namespace kilim::perf {

// The most requests of one sample; every line works in such rounds.
inline constexpr uint32_t round_requests = 32;
inline constexpr uint32_t most_pieces = 52;
inline constexpr uint32_t block_bytes = 65536;
inline constexpr uint32_t scattered_bytes = 1024;

struct RigDestroy {
  void operator()(ibv_td* td) const noexcept { (void)ibv_dealloc_td(td); }
  void operator()(mlx5dv_mkey* key) const noexcept { (void)mlx5dv_destroy_mkey(key); }
  void operator()(std::byte* memory) const noexcept {
    ::operator delete[](memory, std::align_val_t{4096});
  }
};

// The open device, with a protection domain whose queues do not lock.
class RigDevice {
 public:
  // Attaches `name`; returns an empty string, or what failed.
  std::string open(const std::string& name);
  void run() noexcept {
    while (attached_->poll() != 0) {
    }
  }

  // The attached adapter, to open it once more.
  vhca::entry::Attached* attached() noexcept { return attached_; }
  // Runs the device once, as a worker does in each round.
  void poll() noexcept { (void)attached_->poll(); }

  // Whether requests are executed, or only complete.
  bool set_executing(bool on) noexcept { return attached_->set_executing(on).ok(); }

  mlx5::Context context;
  mlx5::Pd pd;
  std::unique_ptr<ibv_td, RigDestroy> domain;
  mlx5::Pd lockless;  // the parent domain

 private:
  vhca::entry::Attached* attached_ = nullptr;
};

// Brings a queue pair up, connected to itself. An empty string, or what failed.
std::string connect_to_itself(RigDevice& device, ibv_qp* qp);

// One side: a queue pair with a completion queue, and an mkey.
class RigQueue {
 public:
  // `requests` may be under way; with more than a round's, without inline data.
  std::string create(RigDevice& device, uint32_t requests = round_requests);
  // The verbs objects.
  ibv_qp* qp() const noexcept { return qp_.get(); }

  std::unique_ptr<mlx5dv_mkey, RigDestroy> key;
  ibv_cq_ex* cq_ex = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp_ex* ex = nullptr;
  mlx5dv_qp_ex* dv = nullptr;
  queue::SqGeometry sq_geometry;
  queue::CqGeometry cq_geometry;

 private:
  std::string create_cq(RigDevice& device);
  std::string make_qp(RigDevice& device, uint32_t requests);
  mlx5::VerbsCq cq_;
  mlx5::VerbsQp qp_;
};

struct Rig {
  // Returns an empty string, or what failed.
  std::string open(const std::string& device_name);

  // Runs the device until both sides are idle; false: a request failed.
  bool settle() noexcept;

  RigDevice device;
  RigQueue ours, theirs;
  std::vector<uint64_t> wr_ids;
  std::unique_ptr<queue::Sq> sq;
  std::unique_ptr<queue::Cq> cq;

  std::unique_ptr<std::byte[], RigDestroy> memory;
  mlx5::VerbsMr region;
  // Pieces of `memory` in the form of either side, and the target of each.
  struct Ours {
    queue::Sge piece;
    uint64_t target, id;
  };
  struct Theirs {
    ibv_sge piece;
    uint64_t target, id;
  };
  std::array<Ours, round_requests> our_writes;
  std::array<Theirs, round_requests> their_writes;
  alignas(64) std::array<queue::Sge, most_pieces> pieces;
  std::array<ibv_sge, most_pieces> sges;
  uint32_t target_key = 0;
  // A large block, and where it is copied to; 16 scattered KiB, and the place to pack them.
  std::byte *block = nullptr, *block_target = nullptr, *packed = nullptr;
  std::array<std::byte*, 16> scattered{};
  // Further queues that a line has made on the device, the first to go.
  // Each line has places of its own: inline 0 and 1, packet 2 and 3, pool 4 and 5, frames 6, spread
  // 7, scale 8, completions 9.
  std::array<std::shared_ptr<void>, 13> of_lines;

 private:
  void lay_out() noexcept;
};

}  // namespace kilim::perf
