// SPDX-License-Identifier: BSD-3-Clause
// Memory for tests of regions, and the question whether a key lets a peer read or write: asked by
// RDMA on a connection of the device to itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/mman.h>

#include "far.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "mlx5_fixture.hh"

namespace kilim::test {

inline constexpr std::size_t page = 4096;

// Whole pages, zeroed.
class Pages {
 public:
  explicit Pages(std::size_t n, int more = 0)
      : bytes_(n * page),
        at_(::mmap(far_from_all(bytes_), bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0)) {}
  ~Pages() { unmap(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void unmap() {
    if (at_ != MAP_FAILED) ::munmap(at_, bytes_);
    at_ = MAP_FAILED;
  }
  [[nodiscard]] bool ok() const { return at_ != MAP_FAILED; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(at_); }
  [[nodiscard]] std::span<std::byte> span() const { return {data(), bytes_}; }
  [[nodiscard]] std::span<std::byte> span(std::size_t first, std::size_t n) const {
    return {data() + first * page, n * page};
  }

 private:
  std::size_t bytes_;
  void* at_;
};

// A connection with memory of its own.
struct Peer {
  Loop loop;
  Pages own{4};
  mr::Region region;
  bool stuck = false;  // a request never completed

  explicit Peer(device::Device& d) : loop(d, mr::Access::all) {
    auto r = d.registrar().register_memory(own.span(), mr::Access::all, page);
    if (r) region = *r;
  }
  ~Peer() { (void)loop.device.registrar().deregister(region); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  [[nodiscard]] bool ok() const { return loop.ok() && region.lkey.value() != 0; }

  // Whether the request completes well; after an error the connection starts over.
  bool write(uint64_t to, Rkey rkey, uint32_t bytes = 8) {
    return run(
        [&](queue::WqeCursor& c, const queue::Sge& mine) {
          return queue::rdma_write(c, {to, rkey}, mine, {.flags = queue::WrFlags::signalled});
        },
        bytes);
  }
  bool read(uint64_t from, Rkey rkey, uint32_t bytes = 8) {
    return run(
        [&](queue::WqeCursor& c, const queue::Sge& mine) {
          return queue::rdma_read(c, {from, rkey}, mine, {.flags = queue::WrFlags::signalled});
        },
        bytes);
  }
  // Adds to 8 bytes there; what they were comes to the begin of this peer's memory.
  bool add(uint64_t to, Rkey rkey, uint64_t n) {
    return run(
        [&](queue::WqeCursor& c, const queue::Sge& mine) {
          const queue::Atomic a{.target = {to, rkey},
                                .result_address = mine.address,
                                .result_key = mine.key,
                                .swap_or_add = n};
          return queue::fetch_and_add(c, a, {.flags = queue::WrFlags::signalled});
        },
        8);
  }
  // As the source of a write to this peer's own memory.
  bool gather(uint64_t from, Lkey lkey, uint32_t bytes = 8) {
    return run(
        [&](queue::WqeCursor& c, const queue::Sge&) {
          return queue::rdma_write(c, {region.iova, region.rkey}, queue::Sge{from, bytes, lkey},
                                   {.flags = queue::WrFlags::signalled});
        },
        bytes);
  }

 private:
  template <typename Post>
  bool run(Post post, uint32_t bytes) {
    queue::WqeCursor c{*loop.sq};
    if (!post(c, queue::Sge{region.iova, bytes, region.lkey})) return false;
    c.commit();
    for (int turn = 0; turn < 2000; turn++) {
      const auto done = loop.wait(*loop.send_cq);
      if (!done) continue;
      if (done->ok()) (void)loop.sq->retire(done->wqe_counter);
      if (!done->ok()) (void)loop.recover();
      return done->ok();
    }
    stuck = true;
    return false;
  }
};

}  // namespace kilim::test
