// SPDX-License-Identifier: BSD-3-Clause
// Strided lists, and lists by pointer, against libmlx5. Strided ones byte for byte; libmlx5 writes
// no pointers, so there what it writes inline must be what Kilim writes into the list's memory, and
// the rest of the WQE the same but for what says so.
#include <array>
#include <random>

#include "kilim/detail/umr/layout.hh"
#include "mlx5/mkey_source.hh"
#include "twins_fixture.hh"
#include "ut.hh"

namespace umr_forms_golden_ut {
namespace {

using namespace kilim;
using test::first_difference;
using test::GoldenQp;
using test::Twins;

constexpr prm::UmrLimits limits{.pointer_lists = true,
                                .repeated_block = true,
                                .max_indirection = 4,
                                .max_key_entries = 65536,
                                .max_inline_klms = 52};

struct Request {
  std::vector<mlx5dv_mr_interleaved> blocks;
  uint32_t repeat = 1;
  uint32_t access = 0;
  bool older_interface = false;
};

Request random_request(std::mt19937_64& random) {
  Request r;
  const std::size_t n = random() % 3 != 0 ? 1 + random() % 8 : 1 + random() % 51;
  for (std::size_t i = 0; i < n; i++) {
    const auto bytes = static_cast<uint32_t>(1 + random() % 65535);
    const auto skip = static_cast<uint32_t>(random() % (65536 - bytes));
    r.blocks.push_back({random(), bytes, skip, static_cast<uint32_t>(random())});
  }
  r.repeat = static_cast<uint32_t>(1 + random() % 100'000);
  for (uint32_t bit : {1u, 2u, 4u, 8u}) r.access |= random() % 2 != 0 ? bit : 0;
  r.older_interface = random() % 2 != 0;
  return r;
}

int by_libmlx5(GoldenQp& q, mlx5dv_mkey* key, Request& r) {
  ibv_wr_start(q.ex);
  q.ex->wr_id = 1;
  q.ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  const auto count = static_cast<uint16_t>(r.blocks.size());
  if (r.older_interface) {
    mlx5dv_wr_mr_interleaved(q.dv, key, r.access, r.repeat, count, r.blocks.data());
    return ibv_wr_complete(q.ex);
  }
  mlx5dv_mkey_conf_attr attr{};
  mlx5dv_wr_mkey_configure(q.dv, key, 2, &attr);
  mlx5dv_wr_set_mkey_access_flags(q.dv, r.access);
  mlx5dv_wr_set_mkey_layout_interleaved(q.dv, r.repeat, count, r.blocks.data());
  return ibv_wr_complete(q.ex);
}

umr::ListRequest request_of(const mlx5dv_mkey* key, uint32_t access) {
  return {.key = Lkey{key->lkey},
          .max_entries = Twins::max_entries,
          .new_tag = tag_of(Lkey{key->lkey}),
          .access = umr::mkey_access(access)};
}

std::vector<umr::StridedEntry> entries_of(const Request& r) {
  std::vector<umr::StridedEntry> entries;
  for (const mlx5dv_mr_interleaved& b : r.blocks)
    entries.push_back({b.addr, b.bytes_count, b.bytes_count + b.bytes_skip, Lkey{b.lkey}});
  return entries;
}

constexpr umr::UmrWr signalled{.flags = queue::WrFlags::signalled};

Outcome by_kilim(queue::Sq& sq, const mlx5dv_mkey* key, const Request& r) {
  const std::vector<umr::StridedEntry> entries = entries_of(r);
  const umr::StridedView v{entries.data(), static_cast<uint32_t>(entries.size()), r.repeat};
  queue::WqeCursor c{sq};
  const Outcome o = umr::umr_strided(c, limits, request_of(key, r.access), v, signalled);
  if (o.ok()) c.commit();
  return o;
}

void random_strided() {
  Twins t{"forms0"};
  CU_ASSERT_TRUE_FATAL(t.ok());
  std::mt19937_64 random{47};
  for (uint32_t i = 0; i < 600; i++) {
    Request r = random_request(random);
    t.key->lkey = (t.key->lkey & ~0xffu) | static_cast<uint32_t>(random() & 0xff);
    EQUAL_FATAL(by_libmlx5(*t.theirs, t.key, r), 0);
    EQUAL_FATAL(t.theirs->wait(), IBV_WC_SUCCESS);  // one queue at a time has the key
    CU_ASSERT_TRUE_FATAL(by_kilim(*t.sq, t.key, r).ok());
    const auto counter = static_cast<uint16_t>(t.first);
    const auto [libmlx5, kilim] = t.posted();
    CU_ASSERT_TRUE_FATAL(libmlx5.size() >= 192);
    EQUAL_FATAL(first_difference(libmlx5, kilim), -1);
    EQUAL_FATAL(t.ours->wait(), IBV_WC_SUCCESS);
    t.sq->retire(counter);
  }
}

// libmlx5 cuts what does not fit into 16 bits and posts it.
void cut_by_libmlx5_refused_by_kilim() {
  Twins t{"forms1"};
  CU_ASSERT_TRUE_FATAL(t.ok());
  Request r;
  r.blocks = {{0x1000, 70'000, 0, 5}};
  r.repeat = 2;
  EQUAL(by_libmlx5(*t.theirs, t.key, r), 0);
  const std::vector<uint8_t> cut = t.theirs->blocks(0, 3);
  EQUAL(cut[128 + 16 + 2] << 8 | cut[128 + 16 + 3], 70'000 & 0xffff);
  Outcome o = by_kilim(*t.sq, t.key, r);
  EQUAL(o.why, Refusal::long_block);
  EQUAL(o.asked, 70'000);
  EQUAL(o.limit, 65535);
  r.blocks = {{0x1000, 60'000, 10'000, 5}};
  o = by_kilim(*t.sq, t.key, r);
  EQUAL(o.why, Refusal::long_stride);
  EQUAL(o.asked, 70'000);
  EQUAL(o.limit, 65535);
  std::array<char, 100> said{};
  describe(o, said);
  EQUAL(said.data(), "a strided entry has a stride of 16 bits: 70000 bytes, the limit is 65535");
  EQUAL(t.ours->posted(), 0);
}

// One memory for lists, and what a WQE by pointer must be, given libmlx5's inline one.
struct Lists {
  alignas(2048) std::array<std::byte, 8192> memory{};
  mr::Region region() {
    const auto at = reinterpret_cast<uint64_t>(memory.data());
    return {.address = at, .length = memory.size(), .iova = at, .lkey = Lkey{0x12345678}};
  }
};

void check_by_pointer(Twins& t, Lists& lists) {
  const uint32_t theirs = (t.theirs->posted() - t.first) & 0xffff;
  const std::vector<uint8_t> inlined = t.theirs->blocks(t.first, theirs);
  std::vector<uint8_t> ours = t.ours->blocks(0, 3);
  EQUAL(t.ours->posted(), 3);
  const std::size_t list_bytes = inlined.size() - 128;
  EQUAL(std::memcmp(&inlined[128], lists.memory.data(), list_bytes), 0);
  const auto at = reinterpret_cast<uint64_t>(lists.memory.data());
  prm::Klm pointer;
  std::memcpy(&pointer, &ours[128], sizeof pointer);
  EQUAL(pointer.byte_count.host(), list_bytes);
  EQUAL(pointer.mkey.host(), 0x12345678);
  EQUAL(pointer.address.host(), at);
  EQUAL(ours[7], 9);   // octowords of the WQE
  EQUAL(ours[16], 0);  // not inline
  ours[7] = inlined[7];
  ours[16] = inlined[16];
  ours.resize(128);
  const std::vector<uint8_t> head(inlined.begin(), inlined.begin() + 128);
  EQUAL(first_difference(head, ours), -1);
}

void list_by_pointer() {
  for (uint32_t n : {1u, 3u, 4u, 17u, 52u}) {
    Twins t{("forms2_" + std::to_string(n)).c_str()};
    CU_ASSERT_TRUE_FATAL(t.ok());
    std::vector<ibv_sge> sges;
    std::vector<umr::Piece> pieces;
    for (uint32_t i = 0; i < n; i++) {
      sges.push_back({0x1234'5678'0000u + i, 100 + i, 0x777 + i});
      pieces.push_back({sges[i].addr, sges[i].length, Lkey{sges[i].lkey}});
    }
    ibv_wr_start(t.theirs->ex);
    t.theirs->ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    mlx5dv_wr_mr_list(t.theirs->dv, t.key, 3, static_cast<uint16_t>(n), sges.data());
    EQUAL_FATAL(ibv_wr_complete(t.theirs->ex), 0);
    Lists lists;
    umr::ListMemory memory{lists.region()};
    const umr::UmrContext context{
        .limits = limits, .memory = &memory, .form = umr::Form::by_pointer};
    queue::WqeCursor c{*t.sq};
    CU_ASSERT_TRUE(
        umr::umr_view(c, context, request_of(t.key, 3), umr::View::of(pieces), signalled).ok());
    c.commit();
    check_by_pointer(t, lists);
  }
}

void strided_by_pointer() {
  std::mt19937_64 random{48};
  for (int i = 0; i < 10; i++) {
    Twins t{("forms3_" + std::to_string(i)).c_str()};
    CU_ASSERT_TRUE_FATAL(t.ok());
    Request r = random_request(random);
    EQUAL_FATAL(by_libmlx5(*t.theirs, t.key, r), 0);
    Lists lists;
    umr::ListMemory memory{lists.region()};
    const umr::UmrContext context{
        .limits = limits, .memory = &memory, .form = umr::Form::by_pointer};
    const std::vector<umr::StridedEntry> entries = entries_of(r);
    const umr::StridedView v{entries.data(), static_cast<uint32_t>(entries.size()), r.repeat};
    queue::WqeCursor c{*t.sq};
    CU_ASSERT_TRUE(
        umr::umr_strided_view(c, context, request_of(t.key, r.access), v, signalled).ok());
    c.commit();
    check_by_pointer(t, lists);
  }
}

// What libmlx5 cannot ask for: entries of one size.
void keys_of_pages(test::GoldenDevice& device, mlx5::VerbsMkeySource& source) {
  std::array<mr::IndirectMkey, 1> pages;
  CU_ASSERT_TRUE_FATAL(
      source
          .create_mkeys({.max_entries = 10, .kind = mr::EntryKind::ksm, .log_entity_bytes = 14},
                        pages)
          .ok());
  const vhca::tpt::Mkey& m = device.key(pages[0].lkey.value());
  EQUAL(m.mode, vhca::tpt::KeyMode::ksm);
  EQUAL(m.log_entity_size, 14);
  EQUAL(m.capacity, 12);
  source.destroy_mkeys(pages);
  const mr::MkeyRequest small{.max_entries = 1, .kind = mr::EntryKind::ksm, .log_entity_bytes = 11};
  EQUAL(source.create_mkeys(small, pages).error().code, EINVAL);
}

void same_but_for_its_number(const vhca::tpt::Mkey& a, const vhca::tpt::Mkey& b) {
  EQUAL(a.mode, b.mode);
  EQUAL(a.free, b.free);
  EQUAL(a.umr_enabled, b.umr_enabled);
  EQUAL(a.rights, b.rights);
  EQUAL(a.pd, b.pd);
  EQUAL(a.qpn, b.qpn);
  EQUAL(a.tag(), b.tag());
  EQUAL(a.start, b.start);
  EQUAL(a.len, b.len);
  EQUAL(a.length64, b.length64);
  EQUAL(a.capacity, b.capacity);
  EQUAL(a.used, b.used);
  EQUAL(a.remote_invalidates, b.remote_invalidates);
  EQUAL(a.window, b.window);
}

// A key made by the command that drivers/mlx5 sends is the key that libmlx5's call makes, as the
// device has it, but for its number; and what libmlx5 cannot ask for.
void keys_by_command() {
  test::GoldenDevice device{"forms4"};
  CU_ASSERT_TRUE_FATAL(device.ok());
  mlx5::VerbsMkeySource source{device.pd, 1 << 16};
  for (uint64_t flags : {uint64_t{MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT},
                         uint64_t{MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
                                  MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE}}) {
    mlx5dv_mkey_init_attr attr{};
    attr.pd = device.pd;
    attr.create_flags = static_cast<uint32_t>(flags);
    attr.max_entries = 41;
    mlx5dv_mkey* theirs = mlx5dv_create_mkey(&attr);
    CU_ASSERT_PTR_NOT_NULL_FATAL(theirs);
    std::array<mr::IndirectMkey, 1> ours;
    const mr::MkeyRequest request{
        .max_entries = 41,
        .remote_invalidate = (flags & MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE) != 0};
    CU_ASSERT_TRUE_FATAL(source.create_mkeys(request, ours).ok());
    const vhca::tpt::Mkey& a = device.key(theirs->lkey);
    const vhca::tpt::Mkey& b = device.key(ours[0].lkey.value());
    same_but_for_its_number(a, b);
    EQUAL(b.remote_invalidates, request.remote_invalidate);
    source.destroy_mkeys(ours);
    mlx5dv_destroy_mkey(theirs);
  }
  keys_of_pages(device, source);
}

const kilim::test::Case cases[] = {
    {"600 random strided lists, both of libmlx5's interfaces, byte for byte", random_strided},
    {"70,000 bytes are cut by libmlx5 and refused by Kilim", cut_by_libmlx5_refused_by_kilim},
    {"a list by pointer is libmlx5's inline list", list_by_pointer},
    {"a strided list by pointer is libmlx5's inline list", strided_by_pointer},
    {"a key made by command is libmlx5's key", keys_by_command},
};

}  // namespace
}  // namespace umr_forms_golden_ut

KILIM_TEST_SUITE(umr_forms, umr_forms_golden_ut::cases)
