// SPDX-License-Identifier: BSD-3-Clause
// For tests of the explainer: regions and keys of several rights, a queue, and the book that knows
// them.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "kilim/detail/diag/explain.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/umr/layout.hh"
#include "kilim/prm/dump.hh"
#include "mlx5_fixture.hh"
#include "ut.hh"

namespace kilim::test {

inline constexpr uint32_t lcore = 3;
inline constexpr uint64_t area = 4096;
inline constexpr uint64_t zero_based = 0;

// A region that may be read and written, one that may only be read, two keys, one queue.
struct ExplainBench {
  VirtualDevice& v;
  std::vector<std::byte> memory = std::vector<std::byte>(4 * area);
  Loop loop;
  std::vector<std::byte> list_memory = std::vector<std::byte>(1 << 16);
  Result<mr::Mr> all, readable, lists;
  std::array<mr::IndirectMkey, 2> keys{};
  std::array<mr::IndirectMkey, 1> big{}, pages{};
  diag::MkeyBook book;
  uint32_t first = 0;  // block of the next WQE

  explicit ExplainBench(VirtualDevice& device)
      : v(device),
        loop(*device.device, mr::Access::all),
        all(mr::Mr::create(v.device->registrar(), std::span(memory).first(area), mr::Access::all,
                           4096)),
        readable(mr::Mr::create(v.device->registrar(), std::span(memory).last(area), 0, 4096)),
        lists(mr::Mr::create(v.device->registrar(), list_memory, 0, 4096)) {
    if (!ok()) return;
    book.region(all->region(), "arena");
    book.region(readable->region(), "rom");
    book.region(lists->region(), "lists");
    (void)v.device->keys().create_mkeys(4, keys);
    (void)v.device->keys().create_mkeys(128, big);
    const mr::MkeyRequest fixed{
        .max_entries = 8, .kind = mr::EntryKind::ksm, .log_entity_bytes = 12};
    (void)v.device->keys().create_mkeys(fixed, pages);
    book.fixed_key(pages[0].lkey, 12);
  }
  ~ExplainBench() { loop.qp.destroy(); }
  [[nodiscard]] bool ok() const { return loop.ok() && all.ok() && readable.ok() && lists.ok(); }

  [[nodiscard]] uint64_t at(uint64_t offset) const { return all->region().iova + offset; }
  [[nodiscard]] Lkey lkey() const { return all->region().lkey; }
  [[nodiscard]] Rkey rkey() const { return all->region().rkey; }
  [[nodiscard]] queue::Remote remote(uint64_t offset = 0) const { return {at(offset), rkey()}; }

  void bind(queue::WqeCursor& c, uint32_t i, std::span<const umr::Piece> pieces,
            uint32_t access = mr::Access::all, uint8_t tag = 0) {
    const umr::ListRequest r{
        .key = keys[i].lkey, .max_entries = 4, .new_tag = tag, .access = umr::mkey_access(access)};
    CU_ASSERT_TRUE(umr::umr_list(c, r, umr::View::of(pieces), {}).ok());
  }
  // A layout of any form, by pointer or not, under a key.
  void bind(queue::WqeCursor& c, const mr::IndirectMkey& key, const umr::Layout& layout,
            umr::Form form) {
    umr::ListMemory room{lists->region()};
    const umr::UmrContext context{
        .limits = v.device->caps().umr_limits(), .memory = &room, .form = form};
    const umr::ListRequest r{.key = key.lkey,
                             .max_entries = key.max_entries,
                             .access = umr::mkey_access(mr::Access::all),
                             .log_entity = key.log_entity_bytes};
    CU_ASSERT_TRUE(umr::umr_layout(c, context, r, layout, {}).ok());
  }
  // `n` pieces of 8 bytes, of which one lies 4 bytes too far.
  [[nodiscard]] std::vector<umr::Piece> pieces(uint32_t n, uint32_t bad) const {
    std::vector<umr::Piece> p(n, {at(64), 8, lkey()});
    p[bad].address = at(area - 4);
    return p;
  }
  // Rings, teaches the book what was posted, and explains the first error.
  std::string explained(queue::WqeCursor& c) {
    const uint32_t end = loop.sq->posted() + (loop.sq->credits().value() - c.room().value());
    c.commit();
    for (uint32_t i = first; i < end;) {
      const diag::SavedWqe w = diag::save_wqe(*loop.sq, static_cast<uint16_t>(i));
      book.learn(w.bytes(), lcore);
      i += wqebbs_for(octowords_for(Bytes{w.size})).value();
    }
    std::array<char, 2048> buffer;
    prm::Text text{buffer};
    auto done = loop.wait(*loop.send_cq);
    while (done.has_value() && done->ok()) done = loop.wait(*loop.send_cq);
    if (!done) return "no error";
    const diag::SavedWqe w = diag::save_wqe(*loop.sq, done->wqe_counter);
    diag::explain(text, *done, w.bytes(), book);
    return std::string(text.view());
  }
};

}  // namespace kilim::test
