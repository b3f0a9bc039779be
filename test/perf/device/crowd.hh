// SPDX-License-Identifier: BSD-3-Clause
// An adapter of its own with as many queues as are asked for, driven by libmlx5: what grows with
// their number is the device's. Queue pairs are connected to themselves, have one completion queue
// in common and one doorbell page. One thread; only set-up allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perf/compare/rig.hh"
#include "perf/device/repeated_pages.hh"

namespace kilim::perf {

class Crowd {
 public:
  // Objects that nobody uses, for what they take of memory: a queue pair of depth 16, a completion
  // queue of 64 entries, a region of 4 KiB.
  enum class Idle : uint8_t { queue_pair, completion_queue, region };
  bool add_idle(Idle what, std::size_t count);
  // So many will come: the list of them grows no more, and is not measured.
  void expect_idle(Idle what, std::size_t count);

  // The most entries of a list, and bytes of each.
  static constexpr uint32_t most_entries = 65532, entry_bytes = 64;

  // An empty string, or what failed.
  std::string open(const std::string& name);
  // So many of them, further ones; false: refused.
  bool grow_queues(std::size_t count);
  bool grow_cqs(std::size_t count);
  bool grow_keys(std::size_t count);
  // An indirect key more, and gone again.
  bool remake_key();
  // A key over `entries` pieces of 64 bytes, in no order of their own.
  bool make_list(uint32_t entries);
  // A region of so many bytes, whose pages come again and again.
  bool make_region(std::size_t bytes);
  // So many keys, each over the one before, the first over memory.
  bool make_tower(uint32_t keys);
  // Memory for lists, and for what they are written to.
  bool make_room();

  // Posts `n` requests of 64 bytes on a queue; of SENDs with their receives.
  bool post_write(ibv_qp* qp, uint32_t n);
  // From the end of the region, and by the top of the tower.
  bool post_from_region(uint32_t n);
  bool post_from_tower(uint32_t n);
  bool post_send(uint32_t n);
  bool post_atomic(uint32_t n);
  // All pieces of the key by one WRITE.
  bool post_list();
  // Copies all pieces of the key by memcpy.
  void copy_list() noexcept;
  // Takes the completions that are due; false: there is one missing, or one failed.
  bool drain();

  void poll() noexcept { device_.poll(); }
  ibv_qp* member(std::size_t i) noexcept { return qps_[i].get(); }
  ibv_cq* armable(std::size_t i) noexcept { return cqs_[i].get(); }
  [[nodiscard]] std::size_t queues() const noexcept { return qps_.size(); }
  [[nodiscard]] std::size_t cqs() const noexcept { return cqs_.size(); }
  [[nodiscard]] uint32_t entries() const noexcept { return entries_; }

 private:
  bool make_domain();
  bool add_queue();
  ibv_cq* create_cq(uint32_t entries);
  mlx5dv_mkey* make_key();
  bool fill_list(uint32_t first, uint32_t count);
  // By a UMR on the queue for lists; false: it failed.
  bool fill_key(const mlx5dv_mkey& key, uint32_t first, std::span<const ibv_sge> entries,
                uint64_t bytes);
  bool write_from(const ibv_sge& from, uint32_t n);
  [[nodiscard]] uint64_t at(std::size_t offset) const noexcept {
    return reinterpret_cast<uint64_t>(room_.get()) + offset;
  }

  RigDevice device_;
  // Its queues lie on the heap: otherwise libibverbs reads the process's mappings for each, in a
  // process that once called ibv_fork_init(), as DPDK does.
  mlx5::Pd domain_;
  RigQueue lists_;  // posts UMRs
  std::unique_ptr<std::byte[], RigDestroy> memory_, room_;
  mlx5::VerbsMr region_, room_region_;
  std::unique_ptr<mlx5dv_mkey, RigDestroy> list_;
  mlx5::VerbsCq cq_;
  std::vector<mlx5::VerbsMr> idle_regions_;
  std::vector<mlx5::VerbsCq> idle_cqs_;
  std::vector<mlx5::VerbsQp> idle_qps_;
  std::vector<mlx5::VerbsQp> qps_;
  std::vector<mlx5::VerbsCq> cqs_;
  std::vector<std::unique_ptr<mlx5dv_mkey, RigDestroy>> keys_, tower_;
  RepeatedPages large_;
  mlx5::VerbsMr large_region_;
  uint32_t due_ = 0;
  uint32_t entries_ = 0;
};

}  // namespace kilim::perf
