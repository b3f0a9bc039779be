// SPDX-License-Identifier: BSD-3-Clause
// Holes in lists that Kilim's UMR requests bind: gathered by WRITE they are zeros, scattered into
// by READ they keep nothing, and the pieces around them are where they should be.
#include <array>
#include <cstring>
#include <vector>

#include <infiniband/verbs.h>

#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/umr/hole.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "mlx5_fixture.hh"
#include "ut.hh"

namespace hole_e2e_ut {
namespace {

using namespace kilim;

constexpr uint64_t area_bytes = 100000;
constexpr uint32_t hole_bytes = 70001;
constexpr uint64_t start = 0x10000;

// The null region of the device of this name, by an open of its own. 0: it has none.
uint32_t null_key_of(const char* name) {
  ibv_device** list = ibv_get_device_list(nullptr);
  uint32_t key = 0;
  for (int i = 0; list != nullptr && list[i] != nullptr; i++) {
    if (std::strcmp(ibv_get_device_name(list[i]), name) != 0) continue;
    ibv_context* context = ibv_open_device(list[i]);
    ibv_pd* pd = context != nullptr ? ibv_alloc_pd(context) : nullptr;
    ibv_mr* mr = pd != nullptr ? ibv_alloc_null_mr(pd) : nullptr;
    if (mr != nullptr) key = mr->lkey;
    if (mr != nullptr) ibv_dereg_mr(mr);
    if (pd != nullptr) ibv_dealloc_pd(pd);
    if (context != nullptr) ibv_close_device(context);
  }
  if (list != nullptr) ibv_free_device_list(list);
  return key;
}

struct Scene {
  explicit Scene(const char* name) : device(test::config(name)), null_key(null_key_of(name)) {
    CU_ASSERT_FATAL(device.device != nullptr);
    CU_ASSERT_FATAL(null_key.value() != 0);
    loop.emplace(*device.device, mr::Access::all);
    CU_ASSERT_FATAL(loop->ok());
    for (std::size_t i = 0; i < area_bytes; i++) {
      area[i] = static_cast<std::byte>(i * 7 + 1);
      flat[i] = static_cast<std::byte>(i * 3 + 2);
    }
    for (auto [memory, region] : {std::pair{&area, &from}, {&flat, &to}}) {
      Result<mr::Mr> made =
          mr::Mr::create(device.device->registrar(), *memory, mr::Access::all, 4096);
      CU_ASSERT_FATAL(static_cast<bool>(made));
      *region = *std::move(made);
    }
    CU_ASSERT_FATAL(static_cast<bool>(device.device->keys().create_mkeys(8, key)));
  }
  // Two pieces, with a hole between them and one behind.
  umr::Piece piece(uint64_t at, uint32_t bytes) const {
    return {from->region().iova + at, bytes, from->region().lkey};
  }
  void bind(queue::WqeCursor& c) {
    const std::array pieces{piece(0, 300), umr::hole(null_key, hole_bytes), piece(50000, 200),
                            umr::hole(null_key, 8)};
    const umr::ListRequest request{.key = key[0].lkey,
                                   .max_entries = key[0].max_entries,
                                   .new_tag = tag_of(key[0].lkey),
                                   .access = umr::mkey_access(mr::Access::all),
                                   .has_start = true,
                                   .start = start};
    CU_ASSERT(umr::umr_list(c, request, umr::View::of(pieces), {.id = 1}).ok());
  }
  void completed() {
    const std::optional<queue::Completion> c = loop->wait(*loop->send_cq);
    CU_ASSERT_FATAL(c.has_value());
    CU_ASSERT_FATAL(c->ok());
    loop->sq->retire(c->wqe_counter);
  }

  test::VirtualDevice device;
  Lkey null_key;
  std::optional<test::Loop> loop;
  std::vector<std::byte> area = std::vector<std::byte>(area_bytes),
                         flat = std::vector<std::byte>(area_bytes);
  std::optional<mr::Mr> from, to;
  std::array<mr::IndirectMkey, 1> key;
};

constexpr uint32_t whole = 300 + hole_bytes + 200 + 8;

bool all_zero(const std::byte* at, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i++)
    if (at[i] != std::byte{0}) return false;
  return true;
}

void gathered() {
  Scene s("hole0");
  queue::WqeCursor c{*s.loop->sq};
  s.bind(c);
  CU_ASSERT(queue::rdma_write(c, {s.to->region().iova, s.to->region().rkey},
                              {start, whole, s.key[0].lkey}, {.flags = queue::WrFlags::signalled})
                .ok());
  c.commit();
  s.completed();
  EQUAL(std::memcmp(s.flat.data(), s.area.data(), 300), 0);
  CU_ASSERT(all_zero(&s.flat[300], hole_bytes));
  EQUAL(std::memcmp(&s.flat[300 + hole_bytes], &s.area[50000], 200), 0);
  CU_ASSERT(all_zero(&s.flat[500 + hole_bytes], 8));
  EQUAL(s.flat[whole], std::byte{(whole * 3 + 2) & 0xff});
}

void scattered() {
  Scene s("hole1");
  const std::vector<std::byte> before = s.area;
  queue::WqeCursor c{*s.loop->sq};
  s.bind(c);
  CU_ASSERT(queue::rdma_read(c, {s.to->region().iova, s.to->region().rkey},
                             {start, whole, s.key[0].lkey}, {.flags = queue::WrFlags::signalled})
                .ok());
  c.commit();
  s.completed();
  EQUAL(std::memcmp(s.area.data(), s.flat.data(), 300), 0);
  EQUAL(std::memcmp(&s.area[300], &before[300], 49700), 0);
  EQUAL(std::memcmp(&s.area[50000], &s.flat[300 + hole_bytes], 200), 0);
  EQUAL(std::memcmp(&s.area[50200], &before[50200], area_bytes - 50200), 0);
}

const kilim::test::Case cases[] = {
    {"gathered by WRITE holes are zeros", gathered},
    {"scattered into by READ they keep nothing", scattered},
};

}  // namespace
}  // namespace hole_e2e_ut

KILIM_TEST_SUITE(hole, hole_e2e_ut::cases)
