// SPDX-License-Identifier: BSD-3-Clause
// A virtual device with memory windows: a connection to itself, whose requests reach memory through
// the windows that it binds, and two registered pages. One thread; everything is released by the
// destructors.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/umr/window.hh"
#include "mlx5_fixture.hh"
#include "ut.hh"

namespace kilim::test {

inline constexpr std::size_t page = 4096;
inline constexpr uint64_t window_at = 1001, window_bytes = 333;  // of a window, in the second page
inline constexpr uint32_t windows_too = mr::Access::all | mr::Access::mw_bind;

// Two pages: from the first to a window on the second.
struct WindowBench {
  VirtualDevice v;
  std::vector<std::byte> memory;
  std::unique_ptr<Loop> loop;
  std::optional<mr::Mr> region;
  uint32_t posted = 0;

  explicit WindowBench(const std::string& name, const char* profile = "cx6dx",
                       uint32_t access = windows_too)
      : v(config(name, profile)), memory(2 * page) {
    std::fill_n(memory.begin(), page, std::byte{0xab});
    if (!v.device) return;
    loop = std::make_unique<Loop>(*v.device, mr::Access::all, v.device->caps().umr);
    auto mr = mr::Mr::create(v.device->registrar(), memory, access, page);
    if (mr) region.emplace(*std::move(mr));
  }
  ~WindowBench() {
    if (loop) loop->qp.destroy();
  }
  [[nodiscard]] bool ok() const { return loop && loop->ok() && region; }
  [[nodiscard]] uint64_t at(uint64_t offset) const { return region->region().iova + page + offset; }
  [[nodiscard]] umr::WindowBind part(uint64_t offset, uint64_t length,
                                     uint32_t access = mr::Access::remote_write) const {
    return {.region = &region->region(),
            .address = at(offset),
            .length = length,
            .access = access,
            .keep_atomic = !v.device->caps().umr_atomic};
  }
  // What the request appended last completes with.
  queue::Completion done(queue::WqeCursor& c) {
    c.commit();
    return done();
  }
  queue::Completion done() {
    auto seen = loop->wait(*loop->send_cq);
    if (!seen)
      return {.opcode = prm::CqeOpcode::req_err, .syndrome = prm::Syndrome::transport_retry_exc};
    loop->sq->retire(seen->wqe_counter);
    return *seen;
  }
  [[nodiscard]] queue::Sge source(uint32_t length) const {
    return {region->region().iova, length, region->region().lkey};
  }
  prm::Syndrome write(uint64_t address, uint32_t length, Rkey key) {
    queue::WqeCursor c{*loop->sq};
    if (!queue::rdma_write(c, {address, key}, source(length), signalled))
      return prm::Syndrome::wr_flush;
    return done(c).syndrome;
  }
  prm::Syndrome read(uint64_t address, uint32_t length, Rkey key) {
    queue::WqeCursor c{*loop->sq};
    if (!queue::rdma_read(c, {address, key}, source(length), signalled))
      return prm::Syndrome::wr_flush;
    return done(c).syndrome;
  }
  prm::Syndrome add(uint64_t address, Rkey key) {
    queue::WqeCursor c{*loop->sq};
    const queue::Atomic a{.target = {address, key},
                          .result_address = region->region().iova,
                          .result_key = region->region().lkey,
                          .swap_or_add = 1};
    if (!queue::fetch_and_add(c, a, signalled)) return prm::Syndrome::wr_flush;
    return done(c).syndrome;
  }
  // A refused access ends the connection: it comes back.
  bool recover() { return loop->recover(); }

  template <umr::WindowType T>
  umr::FreeWindow<T> make() {
    auto w = umr::create_window<T>(v.device->windows());
    return w ? *std::move(w) : umr::FreeWindow<T>{};
  }
  // Bound, or no window.
  template <umr::WindowType T, umr::WindowState S>
  umr::BoundWindow<T> bind(umr::Window<T, S>&& from, const umr::WindowBind& b) {
    umr::BindingWindow<T> binding;
    queue::WqeCursor c{*loop->sq};
    if (!umr::bind(c, std::move(from), b, umr_signalled, binding).ok()) return {};
    const queue::Completion seen = done(c);
    if (seen.ok()) return umr::confirm(std::move(binding), seen);
    last = seen.syndrome;
    return {};
  }
  template <umr::WindowType T>
  umr::FreeWindow<T> shut(umr::BoundWindow<T>&& from) {
    umr::InvalidatingWindow<T> closing;
    queue::WqeCursor c{*loop->sq};
    if (!umr::invalidate(c, std::move(from), umr_signalled, closing).ok()) return {};
    const queue::Completion seen = done(c);
    return seen.ok() ? umr::confirm(std::move(closing), seen) : umr::FreeWindow<T>{};
  }
  prm::Syndrome last = prm::Syndrome::none;

  static constexpr queue::Wr signalled{.id = 1, .flags = queue::WrFlags::signalled};
  static constexpr umr::UmrWr umr_signalled{.id = 2, .flags = queue::WrFlags::signalled};
};

inline bool untouched(const std::byte* from, const std::byte* to) {
  return std::all_of(from, to, [](std::byte b) { return b == std::byte{0}; });
}

// Of window_life.cc.
std::span<const kilim::test::Case> window_life_cases();

}  // namespace kilim::test
