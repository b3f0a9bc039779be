// SPDX-License-Identifier: BSD-3-Clause
// Every kind of UMR, whatever stands behind it: that waits for the UMR, whatever else it is asked
// to wait for. Over an array, by the builders alone.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/umr/fixed.hh"
#include "kilim/detail/umr/patch.hh"
#include "kilim/detail/umr/pointer_wqe.hh"
#include "kilim/detail/umr/shape.hh"
#include "kilim/detail/umr/signature.hh"
#include "kilim/detail/umr/strided.hh"
#include "kilim/detail/umr/window.hh"
#include "ut.hh"

namespace fence_pairs_ut {
namespace {

using namespace kilim;
using namespace kilim::umr;
namespace ctrl = prm::ctrl;
using queue::WqeCursor;

class Windows final : public mr::WindowSource {
 public:
  Result<Rkey> create_window(WindowType) override { return Rkey{made_++ << 8}; }
  Status destroy_window(Rkey) override { return Done{}; }

 private:
  uint32_t made_ = 0x500;
};

constexpr uint32_t blocks = 64;
struct Bench {
  alignas(64) std::array<std::byte, std::size_t{blocks} * 64> memory{};
  std::array<uint64_t, blocks> wr_ids{};
  be32 record{0};
  alignas(8) std::array<std::byte, 8> doorbell{};
  Windows source;
  queue::Sq sq{{.buf = memory.data(),
                .wqebb_count = blocks,
                .record = &record,
                .doorbell = doorbell.data(),
                .qpn = Qpn{7}},
               wr_ids};

  // The fences of all WQEs from a position on.
  [[nodiscard]] std::vector<uint8_t> fences(uint32_t from, uint32_t to) const {
    std::vector<uint8_t> f;
    for (uint32_t at = from; at != to;) {
      prm::CtrlSeg c;
      std::memcpy(&c, memory.data() + std::size_t{at} * 64, sizeof(c));
      f.push_back(ctrl::fence_of(c.fm_ce_se));
      at += wqebbs_for(Octowords{ctrl::ds::get(c)}).value();
    }
    return f;
  }
};

constexpr prm::UmrLimits limits(prm::UmrFence fence) {
  return {.indirect_keys = true,
          .pointer_lists = true,
          .repeated_block = true,
          .change_entity = true,
          .change_atomic = true,
          .extended_offset = true,
          .fence = fence,
          .max_indirection = 4,
          .max_key_entries = 1 << 20,
          .max_inline_klms = max_inline_klms};
}
constexpr prm::UmrLimits any = limits(prm::UmrFence::none);
constexpr std::array<Piece, 4> pieces{
    Piece{0x1000, 4096, Lkey{0x100}}, Piece{0x2000, 4096, Lkey{0x100}},
    Piece{0x3000, 4096, Lkey{0x100}}, Piece{0x4000, 4096, Lkey{0x100}}};
View view() {
  return View::of(pieces);
}
constexpr ListRequest request{.key = Lkey{0x4200}, .max_entries = 8, .new_tag = 1};
constexpr ListRequest sized{.key = Lkey{0x4300}, .max_entries = 8, .log_entity = 12};
constexpr Patch patched{.key = Lkey{0x4200}, .max_entries = 8};
constexpr mr::Region region{.address = 0x10000,
                            .length = 0x10000,
                            .iova = 0x10000,
                            .lkey = Lkey{0x100},
                            .access = mr::Access::all | mr::Access::mw_bind};
constexpr WindowBind part{
    .region = &region, .address = 0x10000, .length = 64, .access = mr::Access::remote_read};

StoredList stored(uint32_t octowords) {
  return {nullptr, 0x800000, Lkey{0x100}, octowords, uint64_t{octowords} * 4096};
}
constexpr uint32_t two_wqes = prm::umr::max_list_octowords + 4;

template <WindowType T>
bool bind_window(Bench& b, WqeCursor& c, const UmrWr& wr) {
  BindingWindow<T> w;
  return bind(c, *std::move(create_window<T>(b.source)), part, wr, w).ok();
}
bool shut_window(Bench& b, WqeCursor& c, const UmrWr& wr) {
  BindingWindow<WindowType::type2> w;
  if (!bind(c, *std::move(create_window<WindowType::type2>(b.source)), part, {}, w).ok())
    return false;
  queue::Completion good;
  good.opcode = prm::CqeOpcode::req;
  InvalidatingWindow<WindowType::type2> closing;
  return invalidate(c, confirm(std::move(w), good), wr, closing).ok();
}
bool sign(WqeCursor& c, SignKind wire, const UmrWr& wr) {
  SignedKey key;
  const SignRule rule{.memory = {.kind = SignKind::crc32c}, .wire = {.kind = wire}};
  return umr_signed(c, request, view(), {rule, key}, wr).ok();
}

struct Umr {
  const char* name;
  bool (*append)(Bench&, WqeCursor&, const UmrWr&);
};
// clang-format off
const Umr umrs[] = {
    {"list", [](Bench&, WqeCursor& c, const UmrWr& wr) { return umr_list(c, request, view(), wr).ok(); }},
    {"shape", [](Bench&, WqeCursor& c, const UmrWr& wr) { return umr_shape(c, ListShape{request, 4}, {.key = request.key, .new_tag = 2}, view(), wr).ok(); }},
    {"shape of", [](Bench&, WqeCursor& c, const UmrWr& wr) { return umr_shape_of(c, ListShape{request, 4}, {.key = request.key, .new_tag = 2}, [](uint32_t i) noexcept { return pieces[i]; }, wr).ok(); }},
    {"pointer", [](Bench&, WqeCursor& c, const UmrWr& wr) { return umr_by_pointer(c, any, request, stored(8), wr).ok(); }},
    {"chain", [](Bench&, WqeCursor& c, const UmrWr& wr) { return umr_by_pointer(c, any, {.key = request.key, .max_entries = two_wqes}, stored(two_wqes), wr).ok(); }},
    {"strided", [](Bench&, WqeCursor& c, const UmrWr& wr) { const StridedEntry e{0x1000, 8, 16, Lkey{0x100}}; return umr_strided(c, any, request, {&e, 1, 3}, wr).ok(); }},
    {"fixed", [](Bench&, WqeCursor& c, const UmrWr& wr) { FixedView v; return fixed_view(pieces, 12, v).ok() && umr_fixed(c, any, sized, v, wr).ok(); }},
    {"patch", [](Bench&, WqeCursor& c, const UmrWr& wr) { return patch(c, any, patched, view(), wr).ok(); }},
    {"patch of fixed", [](Bench&, WqeCursor& c, const UmrWr& wr) { FixedView v; return fixed_view(pieces, 12, v).ok() && patch_fixed(c, any, patched, v, wr).ok(); }},
    {"patch by pointer", [](Bench&, WqeCursor& c, const UmrWr& wr) { return patch_by_pointer(c, any, patched, stored(8), wr).ok(); }},
    {"fields", [](Bench&, WqeCursor& c, const UmrWr& wr) { return change_key(c, {.key = request.key, .fields = prm::umr::mask_len, .length = 10}, wr).ok(); }},
    {"invalidation", [](Bench&, WqeCursor& c, const UmrWr& wr) { return local_invalidate(c, request.key, wr).ok(); }},
    {"window 1", [](Bench& b, WqeCursor& c, const UmrWr& wr) { return bind_window<WindowType::type1>(b, c, wr); }},
    {"window 2", [](Bench& b, WqeCursor& c, const UmrWr& wr) { return bind_window<WindowType::type2>(b, c, wr); }},
    {"window shut", [](Bench& b, WqeCursor& c, const UmrWr& wr) { return shut_window(b, c, wr); }},
    {"signed", [](Bench&, WqeCursor& c, const UmrWr& wr) { return sign(c, SignKind::none, wr); }},
    {"signed twice", [](Bench&, WqeCursor& c, const UmrWr& wr) { return sign(c, SignKind::crc32, wr); }},
};

struct Request {
  const char* name;
  bool (*append)(WqeCursor&, uint8_t flags);
};
constexpr queue::Sge from{0x1000, 8, Lkey{0x4201}};
const Request requests[] = {
    {"SEND", [](WqeCursor& c, uint8_t flags) -> bool { return queue::send(c, from, {.flags = flags}); }},
    {"SEND_IMM", [](WqeCursor& c, uint8_t flags) -> bool { return queue::send_imm(c, {&from, 1}, {.flags = flags}); }},
    {"SEND_INVAL", [](WqeCursor& c, uint8_t flags) -> bool { return queue::send_invalidate(c, from, Rkey{1}, {.flags = flags}); }},
    {"WRITE", [](WqeCursor& c, uint8_t flags) -> bool { return queue::rdma_write(c, {}, from, {.flags = flags}); }},
    {"WRITE of a list", [](WqeCursor& c, uint8_t flags) -> bool { return queue::rdma_write(c, {}, std::span{&from, 1}, {.flags = flags}); }},
    {"READ", [](WqeCursor& c, uint8_t flags) -> bool { return queue::rdma_read(c, {}, from, {.flags = flags}); }},
    {"ATOMIC", [](WqeCursor& c, uint8_t flags) -> bool { return queue::fetch_and_add(c, {}, {.flags = flags}); }},
};
// clang-format on

struct Asked {
  uint8_t flags, gets;
};
// What a WQE behind a UMR asks for by itself, and what it carries.
constexpr Asked asked[] = {{0, ctrl::small_fence},
                           {ctrl::small_fence, ctrl::small_fence},
                           {ctrl::answer_fence, ctrl::fence},
                           {ctrl::strong_fence, ctrl::strong_fence},
                           {ctrl::fence, ctrl::fence}};

void told(bool good, const char* umr, const char* behind, unsigned flags) {
  if (!good) std::printf("%s, then %s with %#x\n", umr, behind, flags);
  CU_ASSERT_TRUE(good);
}

void requests_behind_umrs() {
  for (const Umr& u : umrs) {
    for (const Request& r : requests) {
      for (const Asked& a : asked) {
        Bench b;
        WqeCursor c{b.sq};
        CU_ASSERT_TRUE_FATAL(u.append(b, c, {}));
        const uint32_t at = c.position();
        CU_ASSERT_TRUE_FATAL(r.append(c, a.flags));
        CU_ASSERT_TRUE_FATAL(r.append(c, a.flags));
        const std::vector<uint8_t> f = b.fences(at, c.position());
        told(f[0] == a.gets && f[1] == a.flags, u.name, r.name, a.flags);
      }
    }
  }
}

void umrs_behind_umrs() {
  for (const Umr& first : umrs) {
    for (const Umr& second : umrs) {
      for (const Asked& a : asked) {
        Bench b;
        WqeCursor c{b.sq};
        CU_ASSERT_TRUE_FATAL(first.append(b, c, {}));
        const uint32_t at = c.position();
        CU_ASSERT_TRUE_FATAL(second.append(b, c, {.flags = a.flags}));
        std::vector<uint8_t> f = b.fences(at, c.position());
        // Of several WQEs each waits for the one before it. Shutting a window binds it first.
        const bool shuts = std::string_view{second.name} == "window shut";
        bool good = f[shuts ? 1 : 0] == a.gets;
        for (const uint8_t fence : f) good &= ctrl::waits_for_local(fence);
        told(good, first.name, second.name, a.flags);
      }
    }
  }
}

// A doorbell between them does not take the fence away.
void fences_outlive_the_doorbell() {
  for (const Umr& u : umrs) {
    Bench b;
    {
      WqeCursor c{b.sq};
      CU_ASSERT_TRUE_FATAL(u.append(b, c, {}));
      c.commit();
    }
    WqeCursor c{b.sq};
    const uint32_t at = c.position();
    (void)queue::send(c, from, {});
    told(b.fences(at, c.position())[0] == ctrl::small_fence, u.name, "SEND", 0);
  }
}

// The parts of a chain are UMRs of one key: each as the device asks, and behind the one before.
void parts_of_a_chain() {
  struct Row {
    prm::UmrFence cap;
    uint8_t further;
  };
  for (const Row row :
       {Row{prm::UmrFence::none, ctrl::small_fence}, Row{prm::UmrFence::small, ctrl::small_fence},
        Row{prm::UmrFence::strong, ctrl::strong_fence}}) {
    Bench b;
    WqeCursor c{b.sq};
    constexpr uint32_t entries = prm::umr::chained_list_octowords + two_wqes;
    CU_ASSERT_TRUE_FATAL(umr_by_pointer(c, limits(row.cap),
                                        {.key = request.key, .max_entries = entries},
                                        stored(entries), {.flags = ctrl::answer_fence})
                             .ok());
    EQUAL(b.fences(0, c.position()),
          (std::vector<uint8_t>{ctrl::answer_fence, row.further, row.further}));
  }
}

// A window that this queue's own requests name is changed behind them, else at once.
template <WindowType T>
void window_in_use(Bench& b) {
  queue::Completion good;
  good.opcode = prm::CqeOpcode::req;
  for (const bool used : {false, true}) {
    for (const bool complete : {false, true}) {
      WqeCursor c{b.sq};
      BindingWindow<T> w;
      CU_ASSERT_TRUE_FATAL(bind(c, *std::move(create_window<T>(b.source)), part, {}, w).ok());
      const Rkey key = used ? w.rkey_behind(c) : w.rkey();
      const auto use = static_cast<uint16_t>(c.position());
      (void)queue::rdma_read(c, {0, key}, from, {});
      BoundWindow<T> bound = confirm(std::move(w), good);
      c.commit();
      if (complete) (void)b.sq.retire(use);
      WqeCursor d{b.sq};
      const uint32_t at = d.position();
      const uint8_t expected = used && !complete ? ctrl::strong_fence : uint8_t{0};
      if constexpr (T == WindowType::type1) {
        CU_ASSERT_TRUE_FATAL(bind(d, std::move(bound), part, {}, w).ok());
        InvalidatingWindow<T> closing;
        CU_ASSERT_TRUE_FATAL(invalidate(d, confirm(std::move(w), good), {}, closing).ok());
        // Nobody has used it since the second bind.
        EQUAL(b.fences(at, d.position()), (std::vector<uint8_t>{expected, ctrl::small_fence}));
      } else {
        InvalidatingWindow<T> closing;
        CU_ASSERT_TRUE_FATAL(invalidate(d, std::move(bound), {}, closing).ok());
        EQUAL(b.fences(at, d.position())[0], expected);
      }
    }
  }
}
void windows_in_use() {
  Bench one, two;
  window_in_use<WindowType::type1>(one);
  window_in_use<WindowType::type2>(two);
}

const kilim::test::Case cases[] = {
    {"a request behind a UMR of any kind waits for it", requests_behind_umrs},
    {"a UMR behind a UMR waits for it where nobody knows better", umrs_behind_umrs},
    {"a doorbell does not take the fence away", fences_outlive_the_doorbell},
    {"the parts of a long list wait for each other", parts_of_a_chain},
    {"a window that is in use is changed behind its users", windows_in_use},
};

}  // namespace
}  // namespace fence_pairs_ut

KILIM_TEST_SUITE(fence_pairs, fence_pairs_ut::cases)
