// SPDX-License-Identifier: BSD-3-Clause
// Side: one side of a test: its memory and queue pairs on an open device. The first half of the
// memory is for its own requests, the second half is open to the peer; a side that runs alone is
// its own peer. One thread; only set-up allocates.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kilim/device.hh"
#include "kilim/region.hh"
#include "perf/options.hh"
#include "perf/two_sided/agreement.hh"
#include "perf/two_sided/exchange.hh"
#include "perf/two_sided/lane.hh"
#include "perf/two_sided/tcp.hh"

namespace kilim::perf {

struct Inlined {
  uint64_t messages = 0, bytes = 0;
};

Result<attach::Attachment> open_device(const Options& options);

class Side {
 public:
  static Result<std::unique_ptr<Side>> create(attach::Attachment& device, const Options& options,
                                              const Agreement& agreement);

  // The hello message for the peer.
  Result<Hello> hello();
  Status connect(const Hello& peer);
  // Posts what the test receives, once the queues are connected; connect() does.
  void post_first() noexcept;

  const Agreement& agreement() const noexcept { return agreement_; }
  const Slots& slots() const noexcept { return slots_; }
  std::vector<std::unique_ptr<Lane>>& lanes() noexcept { return lanes_; }
  [[nodiscard]] device::Device& device() noexcept { return *device_.device; }
  [[nodiscard]] uint64_t own_address() const noexcept { return region().iova; }
  [[nodiscard]] uint64_t open_address() const noexcept { return region().iova + half_; }
  [[nodiscard]] const mr::Region& region() const noexcept { return region_->region(); }
  // Bytes of a slot.
  std::span<std::byte> own(uint64_t at, uint32_t bytes) noexcept {
    return block_->span().subspan(at, bytes);
  }
  std::span<std::byte> open(uint64_t at, uint32_t bytes) noexcept {
    return block_->span().subspan(half_ + at, bytes);
  }

  // Serves the peer: runs the device, polls receives and posts new ones.
  void serve() noexcept;
  // serve() as the idle function of a wait; empty if there is nothing to do.
  [[nodiscard]] Idle idle() noexcept;

  // Begins a round of messages of so many bytes; fills both halves for its check.
  void begin_round(uint32_t bytes) noexcept;
  // The round's messages that arrived in their CQE, and their bytes.
  [[nodiscard]] Inlined inlined() const noexcept;
  // Checks what arrived, when the peer has sent so many messages in each queue.
  void check_arrived(const std::vector<uint64_t>& messages) noexcept;

  void fail(std::string why) {
    if (failure_.empty()) failure_ = std::move(why);
  }
  void fail_by(const queue::Completion& c);
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }

 private:
  Side(attach::Attachment& device, const Agreement& agreement) noexcept
      : device_(device), agreement_(agreement), slots_(slots_of(agreement)) {}
  Status make_memory();
  Status make_lanes(const Options& options);
  void run_device() noexcept;
  void post_receives(uint32_t queue) noexcept;
  void poll_receives(uint32_t queue) noexcept;
  void handle_message(uint32_t queue, const queue::Completion& c,
                      std::span<const std::byte> in_entry) noexcept;
  [[nodiscard]] bool all_received(const std::vector<uint64_t>& messages) noexcept;
  bool slot_holds_last(uint32_t queue, uint32_t slot, uint64_t messages) noexcept;

  attach::Attachment& device_;
  Agreement agreement_;
  Slots slots_;
  uint64_t half_ = 0;
  uint32_t bytes_ = 0;  // of the round's messages
  uint32_t idle_looks_ = 0;
  std::string failure_;
  std::unique_ptr<mem::Block> block_;
  std::unique_ptr<mr::Mr> region_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace kilim::perf
