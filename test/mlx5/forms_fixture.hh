// SPDX-License-Identifier: BSD-3-Clause
// One virtual device of one profile, and what a random test of a UMR form needs of it: memory,
// keys, list memory, and the six ways in which a key is used, each against the plain reference.
// One thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/umr/layout.hh"
#include "mlx5_fixture.hh"

namespace kilim::test {

// Bytes of client memory that a key shows, in order.
using Shown = std::vector<std::span<std::byte>>;
uint64_t bytes_of(const Shown& shown);
// `n` bytes at `at` of it.
Shown part_of(const Shown& shown, uint64_t at, uint64_t n);

// How a key is used: on the side that posts, or as the memory of the peer.
enum class Use : uint8_t {
  send_from,   // gathered by SEND
  write_from,  // gathered by WRITE
  read_into,   // scattered by READ
  recv_into,   // scattered by the peer's SEND
  write_into,  // scattered by the peer's WRITE
  read_from,   // gathered by the peer's READ
};
inline constexpr uint32_t uses = 6;

class FormRig {
 public:
  static constexpr uint64_t arena_bytes = 1 << 17;
  static constexpr uint64_t flat_bytes = 1 << 18;

  FormRig(const char* name, const char* profile, uint64_t seed);
  [[nodiscard]] bool ok() const { return ok_; }

  // A new key.
  std::optional<mr::IndirectMkey> key(const mr::MkeyRequest& request);
  // Posts what the cursor holds, signalled, and waits; false after an error, and the connection is
  // as new.
  bool run(queue::WqeCursor& c);
  // Uses `n` bytes at `at` of a key that begins at `start` and must show `shown`. False: refused by
  // the device, or other bytes than the reference's.
  bool use(Use how, Lkey key, uint64_t start, const Shown& shown, uint64_t at, uint64_t n);
  // The same for any range and any use.
  bool use_somehow(Lkey key, uint64_t start, const Shown& shown);
  // Uses the key where it must be refused.
  bool refused(Lkey key, uint64_t start, uint64_t n);

  uint64_t random() { return random_(); }
  uint64_t below(uint64_t n) { return random_() % n; }
  // 1 to `most`, small ones more often.
  uint64_t sometimes(uint64_t most);
  // A key under which these bytes of the arena lie: of all of it, or of one half.
  [[nodiscard]] Lkey arena_key(uint64_t offset, uint64_t bytes);
  [[nodiscard]] uint64_t address(uint64_t offset) const;
  [[nodiscard]] std::byte* memory(uint64_t offset) { return arena_ + offset; }

  std::optional<VirtualDevice> device;
  std::optional<Loop> loop;
  prm::UmrLimits limits;
  std::optional<umr::ListMemory> lists;

 private:
  bool gather(Use how, Lkey key, uint64_t at, const Shown& want);
  bool scatter(Use how, Lkey key, uint64_t at, const Shown& want);
  bool post(Use how, Lkey key, uint64_t at, uint32_t n);
  bool make_memory();

  std::mt19937_64 random_;
  struct Unmap {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Unmap> mapped_;
  std::byte* arena_ = nullptr;
  std::byte* flat_ = nullptr;
  std::vector<std::byte> shadow_;
  std::vector<mr::Mr> regions_;  // the arena, its halves, flat, lists
  std::vector<mr::IndirectMkey> keys_;
  bool ok_ = false;

 public:
  ~FormRig();
  FormRig(const FormRig&) = delete;
  FormRig& operator=(const FormRig&) = delete;
};

}  // namespace kilim::test
