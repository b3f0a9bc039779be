// SPDX-License-Identifier: BSD-3-Clause
// Errors injected on the virtual device, and what the explainer has to say of each: the completion
// comes from the device, the reason from the book of keys.
#include <functional>
#include <random>
#include <string>

#include "explain_fixture.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/umr/layout.hh"
#include "ut.hh"

namespace explain_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

using Sge = queue::Sge;
using Cursor = queue::WqeCursor;

struct Injection {
  std::function<void(ExplainBench&, Cursor&)> post;
  std::vector<const char*> fragments;
};

// clang-format off
const Injection injections[] = {
    {[](ExplainBench& b, Cursor& c) { (void)queue::rdma_write(c, b.remote(), Sge{b.at(area - 64), 128, b.lkey()}, {}); },
     {"RDMA_WRITE at WQE 0", "IBV_WC_LOC_PROT_ERR", "segment 0: 128 bytes at ", "go 64 bytes past the end of region 'arena'"}},
    {[](ExplainBench& b, Cursor& c) { (void)queue::rdma_write(c, b.remote(), Sge{b.at(0) - 8, 64, b.lkey()}, {}); },
     {"segment 0: region 'arena'", "begins 8 bytes behind the address"}},
    {[](ExplainBench& b, Cursor& c) { const Sge s[] = {{b.at(0), 8, b.lkey()}, {b.at(area), 1, b.lkey()}}; (void)queue::rdma_write(c, b.remote(), std::span(s), {}); },
     {"segment 1: ", "go 1 bytes past the end of region 'arena'"}},
    {[](ExplainBench& b, Cursor& c) { (void)queue::rdma_write(c, b.remote(), Sge{b.at(0), 8, Lkey{0x77777700}}, {}); },
     {"segment 0: nobody knows key 0x77777700"}},
    {[](ExplainBench& b, Cursor& c) { (void)queue::rdma_write(c, b.remote(), Sge{b.at(0), 8, Lkey{b.lkey().value() ^ 1}}, {}); },
     {"is stale: it is ", "the tag has changed"}},
    {[](ExplainBench& b, Cursor& c) { (void)queue::rdma_read(c, b.remote(), Sge{b.readable->region().iova, 8, b.readable->region().lkey}, {}); },
     {"RDMA_READ", "region 'rom'", "does not allow local writing"}},
    {[](ExplainBench& b, Cursor& c) { (void)queue::rdma_write(c, b.remote(area - 4), Sge{b.at(0), 8, b.lkey()}, {}); },
     {"IBV_WC_REM_ACCESS_ERR", "remote side: 8 bytes at ", "go 4 bytes past the end of region 'arena'"}},
    {[](ExplainBench& b, Cursor& c) { (void)queue::rdma_write(c, {b.readable->region().iova, b.readable->region().rkey}, Sge{b.at(0), 8, b.lkey()}, {}); },
     {"remote side: region 'rom'", "does not allow remote writing"}},
    {[](ExplainBench& b, Cursor& c) { (void)queue::rdma_read(c, {b.readable->region().iova, b.readable->region().rkey}, Sge{b.at(0), 8, b.lkey()}, {}); },
     {"remote side: region 'rom'", "does not allow remote reading"}},
    {[](ExplainBench& b, Cursor& c) { (void)queue::fetch_and_add(c, {.target = {b.readable->region().iova, b.readable->region().rkey}, .result_address = b.at(0), .result_key = b.lkey()}, {}); },
     {"ATOMIC_FA", "remote side: region 'rom'", "does not allow atomics"}},
    {[](ExplainBench& b, Cursor& c) { (void)queue::rdma_write(c, {b.at(0), Rkey{0x55555500}}, Sge{b.at(0), 8, b.lkey()}, {}); },
     {"remote side: nobody knows key 0x55555500"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::Piece p[] = {{b.at(0), 100, b.lkey()}, {b.at(area - 36), 100, b.lkey()}};
       b.bind(c, 0, p);
       (void)queue::rdma_write(c, b.remote(), Sge{zero_based, 200, b.keys[0].lkey}, {});
     },
     {"segment 0: entry 1 of key ", "(lcore 3, WQE 0): 100 bytes at ", "go 64 bytes past the end of region 'arena'"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::Piece p[] = {{b.at(0), 100, b.lkey()}};
       b.bind(c, 0, p);
       (void)queue::rdma_write(c, b.remote(), Sge{90, 20, b.keys[0].lkey}, {});
     },
     {"20 bytes at 0x5a go 10 bytes past the end of key ", "bound by lcore 3 with WQE 0"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::Piece p[] = {{b.at(0), 8, b.lkey()}, {b.at(64), 8, Lkey{0x33333300}}};
       b.bind(c, 0, p);
       (void)queue::rdma_write(c, b.remote(), Sge{0, 16, b.keys[0].lkey}, {});
     },
     {"entry 1 of key ", "nobody knows key 0x33333300"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::Piece p[] = {{b.at(0), 64, b.lkey()}};
       b.bind(c, 0, p);
       CU_ASSERT_TRUE(umr::local_invalidate(c, b.keys[0].lkey, {.flags = prm::ctrl::small_fence}).ok());
       (void)queue::rdma_write(c, b.remote(), Sge{0, 16, b.keys[0].lkey}, {});
     },
     {"is free: it was invalidated and shows nothing"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::Piece p[] = {{b.at(0), 64, b.lkey()}};
       b.bind(c, 0, p, mr::Access::all, 9);
       (void)queue::rdma_write(c, b.remote(), Sge{0, 16, b.keys[0].lkey}, {});
     },
     {"is stale: it is ", "the tag has changed"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::Piece p[] = {{b.at(0), 64, b.lkey()}};
       b.bind(c, 0, p, mr::Access::local_write);
       (void)queue::rdma_write(c, {0, Rkey{b.keys[0].lkey.value()}}, Sge{b.at(64), 16, b.lkey()}, {});
     },
     {"remote side: key ", "bound by lcore 3 with WQE 0 does not allow remote writing"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::Piece low[] = {{b.at(area - 8), 16, b.lkey()}};
       b.bind(c, 0, low);
       const umr::Piece high[] = {{b.at(0), 8, b.lkey()}, {0, 16, b.keys[0].lkey}};
       b.bind(c, 1, high);
       (void)queue::rdma_write(c, b.remote(), Sge{0, 24, b.keys[1].lkey}, {});
     },
     {"entry 1 of key ", "(lcore 3, WQE 3): entry 0 of key ", "go 8 bytes past the end of region 'arena'"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::Piece p[] = {{b.readable->region().iova, 64, b.readable->region().lkey}};
       b.bind(c, 0, p);
       (void)queue::rdma_read(c, b.remote(), Sge{0, 16, b.keys[0].lkey}, {});
     },
     {"entry 0 of key ", "region 'rom'", "does not allow local writing"}},
    {[](ExplainBench& b, Cursor& c) {
       (void)queue::rdma_write(c, b.remote(), Sge{b.at(area), 8, b.lkey()}, {});
       (void)queue::rdma_write(c, b.remote(), Sge{b.at(0), 8, b.lkey()}, {});
     },
     {"WQE 0 ", "go 8 bytes past the end of region 'arena'"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::Piece p[] = {{b.at(0), 64, b.lkey()}};
       const umr::ListRequest r{.key = Lkey{0x44444400}, .max_entries = 4, .access = 0};
       CU_ASSERT_TRUE(umr::umr_list(c, r, umr::View::of(p), {}).ok());
     },
     {"UMR at WQE 0", "IBV_WC_MW_BIND_ERR", "key 0x44444400"}},
    {[](ExplainBench& b, Cursor& c) {
       const std::vector<umr::Piece> p = b.pieces(100, 77);
       b.bind(c, b.big[0], umr::View::of(p), umr::Form::by_size);
       (void)queue::rdma_write(c, b.remote(), Sge{16, 784, b.big[0].lkey}, {});
     },
     {"segment 0: entry 77 of key ", "(lcore 3, WQE 0): 8 bytes at ", "go 4 bytes past the end of region 'arena'"}},
    {[](ExplainBench& b, Cursor& c) {
       const std::vector<umr::Piece> p = b.pieces(12, 9);
       b.bind(c, b.big[0], umr::View::of(p), umr::Form::by_pointer);
       (void)queue::rdma_write(c, b.remote(), Sge{70, 8, b.big[0].lkey}, {});
     },
     {"entry 9 of key ", "6 bytes at ", "go 2 bytes past the end of region 'arena'"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::StridedEntry e[] = {{b.at(0), 8, 16, b.lkey()}, {b.at(area - 256), 4, 50, b.lkey()}};
       b.bind(c, b.big[0], umr::StridedView{e, 2, 20}, umr::Form::inline_list);
       (void)queue::rdma_write(c, b.remote(), Sge{8, 200, b.big[0].lkey}, {});
     },
     {"entry 1, repetition 6, of key ", "4 bytes at ", "go 48 bytes past the end of region 'arena'"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::StridedEntry e[] = {{b.at(0), 8, 16, b.lkey()}, {b.at(0), 4, 0, Lkey{0x33333300}}};
       b.bind(c, b.big[0], umr::StridedView{e, 2, 20}, umr::Form::by_pointer);
       (void)queue::rdma_write(c, b.remote(), Sge{120, 12, b.big[0].lkey}, {});
     },
     {"entry 1, repetition 10, of key ", "nobody knows key 0x33333300"}},
    {[](ExplainBench& b, Cursor& c) {
       const umr::Piece p[] = {{b.at(0), 4096, b.lkey()}, {b.at(64), 4096, b.lkey()}};
       umr::FixedView v;
       CU_ASSERT_TRUE(umr::fixed_view(p, 12, v).ok());
       b.bind(c, b.pages[0], v, umr::Form::by_pointer);
       (void)queue::rdma_write(c, b.remote(), Sge{8000, 192, b.pages[0].lkey}, {});
     },
     {"entry 1 of key ", "192 bytes at ", "go 64 bytes past the end of region 'arena'"}},
    {[](ExplainBench& b, Cursor& c) {
       (void)b.loop.rq->post(Sge{b.at(0), 4, b.lkey()}, 1);
       b.loop.rq->ring();
       (void)queue::send(c, Sge{b.at(0), 8, b.lkey()}, {});
     },
     {"SEND at WQE 0", "IBV_WC_REM_INV_REQ_ERR", "or its receive is too short"}},
};
// clang-format on

void each_error_is_explained() {
  DeviceSpec config;
  config.name = "explain0";
  VirtualDevice v{config};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  CU_ASSERT_TRUE(std::size(injections) >= 20);
  for (const Injection& injection : injections) {
    ExplainBench b{v};
    CU_ASSERT_TRUE_FATAL(b.ok());
    Cursor c{*b.loop.sq};
    injection.post(b, c);
    const std::string said = b.explained(c);
    for (const char* fragment : injection.fragments) {
      const bool there = said.find(fragment) != std::string::npos;
      if (!there) std::printf("no '%s' in: %s\n", fragment, said.c_str());
      CU_ASSERT_TRUE(there);
    }
  }
}

void has_a_sentence(std::mt19937_64& random, diag::MkeyBook& book, std::span<const std::byte> part,
                    prm::lint::QueueKind kind) {
  std::array<char, 200> buffer;
  prm::Text text{buffer};
  queue::Completion c;
  c.opcode = prm::CqeOpcode::req_err;
  c.wqe_opcode = prm::Opcode::send;
  const prm::Syndrome all[] = {prm::Syndrome::local_prot, prm::Syndrome::remote_access,
                               prm::Syndrome::mw_bind, prm::Syndrome::local_qp_op};
  c.syndrome = all[random() % std::size(all)];
  diag::explain(text, c, part, book, kind);
  CU_ASSERT_FALSE(text.view().empty());
  prm::Text dumped{buffer};
  prm::dump_wqe(dumped, part, kind);
  CU_ASSERT_FALSE(dumped.view().empty());
}

// Untrusted: whatever the ring holds, there is a sentence.
void any_bytes_have_an_explanation() {
  std::mt19937_64 random{5};
  diag::MkeyBook book;
  for (int i = 0; i < 20000; i++) {
    std::array<std::byte, 1024> wqe;
    for (std::byte& b : wqe) b = static_cast<std::byte>(random() % 5 == 0 ? random() : 0);
    const prm::Opcode ops[] = {prm::Opcode::umr, prm::Opcode::rdma_write, prm::Opcode::rdma_read,
                               prm::Opcode::atomic_fa, prm::Opcode::send};
    wqe[3] = static_cast<std::byte>(ops[random() % std::size(ops)]);
    // A block of its own, so that a sanitizer sees who reads behind it.
    const std::size_t bytes = random() % ((i % 4 == 0 ? wqe.size() : 128) + 1);
    const std::vector<std::byte> part{wqe.begin(),
                                      wqe.begin() + static_cast<std::ptrdiff_t>(bytes)};
    const auto kind = static_cast<prm::lint::QueueKind>(random() % prm::lint::queue_kinds);
    book.learn(part, 1, kind);
    has_a_sentence(random, book, part, kind);
  }
}

void a_key_is_audited() {
  DeviceSpec config;
  config.name = "explain1";
  VirtualDevice v{config};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  ExplainBench b{v};
  CU_ASSERT_TRUE_FATAL(b.ok());
  Cursor c{*b.loop.sq};
  const umr::Piece p[] = {{b.at(0), 64, b.lkey()}};
  b.bind(c, 0, p);
  (void)queue::rdma_write(c, b.remote(), Sge{0, 16, b.keys[0].lkey}, {});
  (void)queue::rdma_write(c, b.remote(), Sge{60, 16, b.keys[0].lkey}, {});
  b.explained(c);
  const diag::MkeyRecord* k = b.book.find(b.keys[0].lkey.value());
  CU_ASSERT_PTR_NOT_NULL_FATAL(k);
  EQUAL(k->binds, 1);
  EQUAL(k->uses, 2);
  EQUAL(k->invalidations, 0);
  EQUAL(k->faults, 1);
}

const test::Case cases[] = {
    {"each of more than 20 injected errors is explained", each_error_is_explained},
    {"any bytes have an explanation", any_bytes_have_an_explanation},
    {"binds, uses and faults of a key are counted", a_key_is_audited},
};

}  // namespace
}  // namespace explain_ut

KILIM_TEST_SUITE(explain, explain_ut::cases)
