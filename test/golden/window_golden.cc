// SPDX-License-Identifier: BSD-3-Clause
// The WQEs by which Kilim binds and shuts memory windows are those that libmlx5 writes for the same
// request, byte for byte, the queue pair's number aside. libmlx5 leaves what its mask does not take
// as the ring had it; those bytes are named one by one. Both queues work on one window, in turns.
#include <random>

#include "kilim/detail/umr/window.hh"
#include "twins_fixture.hh"
#include "ut.hh"

namespace window_golden_ut {
namespace {

using namespace kilim;
using test::first_difference;
using test::Twins;
using umr::WindowType;

// Shows the window that libmlx5 made; its owner is the test.
class Borrowed final : public mr::WindowSource {
 public:
  explicit Borrowed(const ibv_mw* mw) : mw_(mw) {}
  Result<Rkey> create_window(WindowType) override { return Rkey{mw_->rkey}; }
  Status destroy_window(Rkey) override { return Done{}; }

 private:
  const ibv_mw* mw_;
};

struct Windows : Twins {
  explicit Windows(const char* name, ibv_mw_type type) : Twins(name), memory(1 << 16) {
    constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
    if (!Twins::ok()) return;
    mr = ibv_reg_mr(device.pd, memory.data(), memory.size(), access);
    mw = ibv_alloc_mw(device.pd, type);
    region.address = region.iova = reinterpret_cast<uint64_t>(memory.data());
    region.length = memory.size();
    if (mr != nullptr) region.lkey = Lkey{mr->lkey};
    region.access = mr::Access::all | mr::Access::mw_bind;
  }
  ~Windows() {
    if (mw != nullptr) ibv_dealloc_mw(mw);
    if (mr != nullptr) ibv_dereg_mr(mr);
  }
  [[nodiscard]] bool ok() const { return mr != nullptr && mw != nullptr; }

  umr::WindowBind any_bind() {
    umr::WindowBind b{.region = &region};
    const uint64_t at = random() % region.length;
    b.address = region.address + at;
    b.length = 1 + random() % (region.length - at);
    for (uint32_t bit :
         {mr::Access::remote_write, mr::Access::remote_read, mr::Access::remote_atomic})
      b.access |= random() % 2 != 0 ? bit : 0;
    return b;
  }
  [[nodiscard]] ibv_mw_bind_info info(const umr::WindowBind& b) const {
    return {mr, b.address, b.length, b.access | (b.zero_based ? IBV_ACCESS_ZERO_BASED : 0)};
  }
  void any_tag() { mw->rkey = (mw->rkey & ~0xffu) | static_cast<uint32_t>(random() & 0xff); }

  // Where the two differ, from block `at` on: a bind, or the end of one.
  [[nodiscard]] int difference(uint32_t at, bool bind) const {
    const uint32_t count = bind ? 3 : 2;
    std::vector<uint8_t> libmlx5 = theirs->blocks(at, count), kilim = ours->blocks(at, count);
    const auto forget = [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; i++) libmlx5[64 + i] = 0;
    };
    forget(1, bind ? 2 : 4);    // reserved, and where the window shuts, access
    forget(3, 4);               // small fence on write
    forget(8, bind ? 16 : 64);  // domain, and where the window shuts, start and length
    forget(32, 64);             // signatures, size of the list
    if (blank_queue(libmlx5, theirs->qp->qp_num) != blank_queue(kilim, ours->qp->qp_num)) return 68;
    return first_difference(libmlx5, kilim);
  }
  // A window of type 2 belongs to the queue pair that binds it, and theirs are two.
  static bool blank_queue(std::vector<uint8_t>& wqe, uint32_t qpn) {
    const bool own =
        wqe[68] == (qpn >> 16 & 0xff) && wqe[69] == (qpn >> 8 & 0xff) && wqe[70] == (qpn & 0xff);
    if (own) wqe[68] = wqe[69] = wqe[70] = 0;
    return own;
  }
  bool done(test::GoldenQp& q) { return q.wait() == IBV_WC_SUCCESS; }

  std::vector<std::byte> memory;
  ibv_mr* mr = nullptr;
  ibv_mw* mw = nullptr;
  mr::Region region;
  std::mt19937_64 random{5};
};

constexpr umr::UmrWr signalled{.id = 1, .flags = queue::WrFlags::signalled};
constexpr queue::Completion good{.opcode = prm::CqeOpcode::req};

int bind2(Windows& w, const umr::WindowBind& b, bool by_post_send) {
  if (!by_post_send) {
    const ibv_mw_bind_info info = w.info(b);
    ibv_wr_start(w.theirs->ex);
    w.theirs->ex->wr_id = 1;
    w.theirs->ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_bind_mw(w.theirs->ex, w.mw, ibv_inc_rkey(w.mw->rkey), &info);
    return ibv_wr_complete(w.theirs->ex);
  }
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.bind_mw = {w.mw, ibv_inc_rkey(w.mw->rkey), w.info(b)};
  return ibv_post_send(w.theirs->qp, &wr, &bad);
}

int shut2(Windows& w, uint32_t key, bool by_post_send) {
  if (!by_post_send) {
    ibv_wr_start(w.theirs->ex);
    w.theirs->ex->wr_id = 1;
    w.theirs->ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_local_inv(w.theirs->ex, key);
    return ibv_wr_complete(w.theirs->ex);
  }
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_LOCAL_INV;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.invalidate_rkey = key;
  return ibv_post_send(w.theirs->qp, &wr, &bad);
}

// Kilim's bind and invalidation end where libmlx5's did.
void same_by_kilim(Windows& w, const umr::WindowBind& b, uint32_t key, uint32_t bind_at,
                   uint32_t shut_at) {
  Borrowed source{w.mw};
  auto window = umr::create_window<WindowType::type2>(source);
  umr::BindingWindow<WindowType::type2> binding;
  umr::InvalidatingWindow<WindowType::type2> closing;
  queue::WqeCursor c{*w.sq};
  CU_ASSERT_TRUE_FATAL(umr::bind(c, *std::move(window), b, signalled, binding).ok());
  EQUAL(binding.rkey().value(), key);
  c.commit();
  CU_ASSERT_TRUE_FATAL(w.done(*w.ours));
  EQUAL_FATAL(w.ours->posted(), bind_at);
  auto bound = umr::confirm(std::move(binding), good);
  queue::WqeCursor d{*w.sq};
  CU_ASSERT_TRUE_FATAL(umr::invalidate(d, std::move(bound), signalled, closing).ok());
  d.commit();
  CU_ASSERT_TRUE_FATAL(w.done(*w.ours));
  EQUAL_FATAL(w.ours->posted(), shut_at);
  EQUAL_FATAL((shut_at - w.first) & 0xffff, 5);
}

void type_2() {
  Windows w{"win0", IBV_MW_TYPE_2};
  CU_ASSERT_TRUE_FATAL(w.ok());
  for (uint32_t i = 0; i < 300; i++) {
    umr::WindowBind b = w.any_bind();
    b.zero_based = i % 5 == 0;
    w.any_tag();
    const bool by_post_send = i % 2 == 0;
    const uint32_t key = ibv_inc_rkey(w.mw->rkey);
    EQUAL_FATAL(bind2(w, b, by_post_send), 0);
    CU_ASSERT_TRUE_FATAL(w.done(*w.theirs));
    const uint32_t bind_at = w.theirs->posted();
    EQUAL_FATAL(shut2(w, key, by_post_send), 0);
    CU_ASSERT_TRUE_FATAL(w.done(*w.theirs));
    const uint32_t shut_at = w.theirs->posted();

    same_by_kilim(w, b, key, bind_at, shut_at);
    const uint32_t from = w.first;
    EQUAL_FATAL(w.difference(from, true), -1);
    EQUAL_FATAL(w.difference(from + 3, false), -1);
    w.sq->retire(static_cast<uint16_t>(from));
    w.sq->retire(static_cast<uint16_t>(from + 3));
    w.first = shut_at;
  }
}

// A window of type 1 is shut by a bind of no bytes.
void shut_1(Windows& w, ibv_mw_bind theirs, umr::BindingWindow<WindowType::type1> binding) {
  theirs.bind_info.length = 0;
  EQUAL_FATAL(ibv_bind_mw(w.theirs->qp, w.mw, &theirs), 0);
  CU_ASSERT_TRUE_FATAL(w.done(*w.theirs));
  umr::InvalidatingWindow<WindowType::type1> closing;
  queue::WqeCursor d{*w.sq};
  auto bound = umr::confirm(std::move(binding), good);
  CU_ASSERT_TRUE_FATAL(umr::invalidate(d, std::move(bound), signalled, closing).ok());
  d.commit();
  CU_ASSERT_TRUE_FATAL(w.done(*w.ours));
  EQUAL_FATAL(w.ours->posted(), w.theirs->posted());
}

void type_1() {
  Windows w{"win1", IBV_MW_TYPE_1};
  CU_ASSERT_TRUE_FATAL(w.ok());
  Borrowed source{w.mw};
  for (uint32_t i = 0; i < 300; i++) {
    const umr::WindowBind b = w.any_bind();
    w.any_tag();
    auto window = umr::create_window<WindowType::type1>(source);
    ibv_mw_bind theirs{.wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = w.info(b)};
    EQUAL_FATAL(ibv_bind_mw(w.theirs->qp, w.mw, &theirs), 0);
    CU_ASSERT_TRUE_FATAL(w.done(*w.theirs));
    umr::BindingWindow<WindowType::type1> binding;
    queue::WqeCursor c{*w.sq};
    CU_ASSERT_TRUE_FATAL(umr::bind(c, *std::move(window), b, signalled, binding).ok());
    EQUAL(binding.rkey().value(), w.mw->rkey);
    c.commit();
    CU_ASSERT_TRUE_FATAL(w.done(*w.ours));
    EQUAL_FATAL(w.ours->posted(), w.theirs->posted());
    EQUAL_FATAL(w.difference(w.first, true), -1);
    w.sq->retire(static_cast<uint16_t>(w.first));

    shut_1(w, theirs, std::move(binding));
    EQUAL_FATAL(w.difference(w.first + 3, false), -1);
    w.sq->retire(static_cast<uint16_t>(w.first + 3));
    w.first = w.theirs->posted();
  }
}

// The longest window is written alike. A refused bind leaves libmlx5 a fence that is pending, Kilim
// nothing: it comes last.
void beyond_2_gib() {
  Windows w{"win2", IBV_MW_TYPE_2};
  CU_ASSERT_TRUE_FATAL(w.ok());
  w.region.length = uint64_t{4} << 30;
  umr::WindowBind b{.region = &w.region, .address = w.region.address, .length = 1ull << 31};
  Borrowed source{w.mw};
  auto window = umr::create_window<WindowType::type2>(source);
  umr::BindingWindow<WindowType::type2> binding;
  queue::WqeCursor c{*w.sq};
  EQUAL_FATAL(bind2(w, b, true), 0);
  CU_ASSERT_TRUE_FATAL(umr::bind(c, *std::move(window), b, signalled, binding).ok());
  CU_ASSERT_TRUE(!*window);
  CU_ASSERT_TRUE(static_cast<bool>(binding));
  c.commit();
  EQUAL(w.ours->posted(), w.theirs->posted());
  EQUAL(w.difference(0, true), -1);

  b.length++;
  EQUAL(bind2(w, b, true), EOPNOTSUPP);
  EQUAL(bind2(w, b, false), EOPNOTSUPP);
  auto other = umr::create_window<WindowType::type2>(source);
  umr::BindingWindow<WindowType::type2> none;
  const Outcome o = umr::bind(c, *std::move(other), b, signalled, none);
  EQUAL(o.why, Refusal::long_window);
  EQUAL(o.asked, 2049);
  EQUAL(o.limit, 2048);
  CU_ASSERT_TRUE(static_cast<bool>(*other));
  CU_ASSERT_TRUE(!none);
}

void tags() {
  for (uint32_t key : {0x100u, 0x1ffu, 0xabcdef00u, 0xffffffffu})
    EQUAL(umr::next_window_key(Rkey{key}).value(), ibv_inc_rkey(key));
}

const kilim::test::Case cases[] = {
    {"300 windows of type 2, both of libmlx5's interfaces, byte for byte", type_2},
    {"300 windows of type 1, byte for byte", type_1},
    {"more than 2 GiB is refused by both", beyond_2_gib},
    {"the next key is that of ibv_inc_rkey", tags},
};

}  // namespace
}  // namespace window_golden_ut

KILIM_TEST_SUITE(window, window_golden_ut::cases)
