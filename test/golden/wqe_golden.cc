// SPDX-License-Identifier: BSD-3-Clause
// The WQEs of reliable connections and raw packets that Kilim writes are those that libmlx5 writes
// for the same request, byte for byte, the queue pair's number aside. What lies behind the last
// segment in its basic block is nobody's, and not compared.
#include <algorithm>
#include <array>
#include <random>

#include "kilim/detail/queue/eth_packet.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "twin_fixture.hh"
#include "ut.hh"

namespace wqe_golden_ut {
namespace {

using namespace kilim;
using test::GoldenDevice;
using test::GoldenQp;

struct Request {
  prm::Opcode op = prm::Opcode::send;
  std::vector<ibv_sge> sges;
  uint64_t raddr = 0;
  uint32_t rkey = 0;
  uint32_t imm = 0;
  uint64_t a = 0, b = 0;  // swap or add, compare
  bool signalled = false, solicited = false, fence = false;
};

constexpr prm::Opcode rc_opcodes[] = {prm::Opcode::send,       prm::Opcode::send_imm,
                                      prm::Opcode::rdma_write, prm::Opcode::rdma_read,
                                      prm::Opcode::atomic_cs,  prm::Opcode::rdma_write_imm,
                                      prm::Opcode::atomic_fa};

Request random_request(std::mt19937_64& random, prm::Opcode op) {
  Request r;
  r.op = op;
  const bool atomic = op == prm::Opcode::atomic_cs || op == prm::Opcode::atomic_fa;
  const uint64_t n = atomic ? 1 : 1 + random() % 8;
  for (uint64_t i = 0; i < n; i++) {
    const auto length = static_cast<uint32_t>(atomic ? 8 : 1 + random() % 65536);
    r.sges.push_back({random(), length, static_cast<uint32_t>(random())});
  }
  r.raddr = random();
  r.rkey = static_cast<uint32_t>(random());
  r.imm = static_cast<uint32_t>(random());
  r.a = random();
  r.b = random();
  r.signalled = random() % 2 != 0;
  r.solicited = random() % 2 != 0;
  r.fence = random() % 4 == 0;
  return r;
}

int by_libmlx5(GoldenQp& q, Request& r) {
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = r.sges.data();
  wr.num_sge = static_cast<int>(r.sges.size());
  if (r.signalled) wr.send_flags |= IBV_SEND_SIGNALED;
  if (r.solicited) wr.send_flags |= IBV_SEND_SOLICITED;
  if (r.fence) wr.send_flags |= IBV_SEND_FENCE;
  wr.imm_data = be32{r.imm}.raw();
  wr.wr.rdma = {r.raddr, r.rkey};
  switch (r.op) {
    case prm::Opcode::send:
      wr.opcode = IBV_WR_SEND;
      break;
    case prm::Opcode::send_imm:
      wr.opcode = IBV_WR_SEND_WITH_IMM;
      break;
    case prm::Opcode::rdma_write:
      wr.opcode = IBV_WR_RDMA_WRITE;
      break;
    case prm::Opcode::rdma_write_imm:
      wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
      break;
    case prm::Opcode::rdma_read:
      wr.opcode = IBV_WR_RDMA_READ;
      break;
    case prm::Opcode::atomic_cs:
      wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
      wr.wr.atomic = {r.raddr, r.b, r.a, r.rkey};
      break;
    default:
      wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
      wr.wr.atomic = {r.raddr, r.a, 0, r.rkey};
      break;
  }
  return ibv_post_send(q.qp, &wr, &bad);
}

std::vector<queue::Sge> pieces_of(const Request& r) {
  std::vector<queue::Sge> pieces;
  for (const ibv_sge& s : r.sges) pieces.push_back({s.addr, s.length, Lkey{s.lkey}});
  return pieces;
}

queue::Wr wr_of(const Request& r) {
  using queue::WrFlags;
  const int flags = (r.signalled ? WrFlags::signalled : 0) |
                    (r.solicited ? WrFlags::solicited : 0) | (r.fence ? WrFlags::fence : 0);
  return {.id = 1, .flags = static_cast<uint8_t>(flags), .imm = r.imm};
}

bool by_kilim(queue::WqeCursor& c, const Request& r) {
  const std::vector<queue::Sge> list = pieces_of(r);
  const std::span<const queue::Sge> pieces{list};
  const queue::Remote remote{r.raddr, Rkey{r.rkey}};
  const queue::Wr wr = wr_of(r);
  const queue::Atomic a{.target = remote,
                        .result_address = list[0].address,
                        .result_key = list[0].key,
                        .swap_or_add = r.a,
                        .compare = r.op == prm::Opcode::atomic_cs ? r.b : 0};
  const bool one = list.size() == 1;
  switch (r.op) {
    case prm::Opcode::send:
      return one ? queue::send(c, list[0], wr) : queue::send(c, pieces, wr);
    case prm::Opcode::send_imm:
      return queue::send_imm(c, pieces, wr);
    case prm::Opcode::rdma_write:
      return one ? queue::rdma_write(c, remote, list[0], wr)
                 : queue::rdma_write(c, remote, pieces, wr);
    case prm::Opcode::rdma_write_imm:
      return queue::rdma_write_imm(c, remote, pieces, wr);
    case prm::Opcode::rdma_read:
      return one ? queue::rdma_read(c, remote, list[0], wr)
                 : queue::rdma_read(c, remote, pieces, wr);
    case prm::Opcode::atomic_cs:
      return queue::compare_and_swap(c, a, wr);
    default:
      return queue::fetch_and_add(c, a, wr);
  }
}

// What both wrote is the same up to the last segment; returns the blocks of the WQE.
uint32_t compare(const GoldenQp& theirs, const GoldenQp& ours, uint32_t first) {
  EQUAL_FATAL(theirs.posted(), ours.posted());
  const uint32_t count = (theirs.posted() - first) & 0xffff;
  CU_ASSERT_TRUE_FATAL(count != 0);
  std::vector<uint8_t> libmlx5 = theirs.blocks(first, count);
  std::vector<uint8_t> kilim = ours.blocks(first, count);
  const std::size_t used = std::size_t{libmlx5[7] & 0x3fu} * 16;
  libmlx5.resize(used);
  kilim.resize(used);
  EQUAL_FATAL(test::first_difference(libmlx5, kilim), -1);
  return count;
}

// Nothing runs: the addresses and keys are random, and only what is written counts.
void reliable_connections() {
  GoldenDevice device{"wqe0"};
  CU_ASSERT_TRUE_FATAL(device.ok());
  std::mt19937_64 random{45};
  for (int round = 0; round < 20; round++) {
    GoldenQp theirs{device, IBV_QPT_RC};
    GoldenQp ours{device, IBV_QPT_RC};
    CU_ASSERT_TRUE_FATAL(theirs.ok());
    CU_ASSERT_TRUE_FATAL(ours.ok());
    std::vector<uint64_t> ids(ours.geometry.wqebb_count);
    queue::Sq sq{ours.geometry, ids};
    uint32_t first = 0;
    for (prm::Opcode op : rc_opcodes) {
      Request r = random_request(random, op);
      EQUAL_FATAL(by_libmlx5(theirs, r), 0);
      queue::WqeCursor c{sq};
      CU_ASSERT_TRUE_FATAL(by_kilim(c, r));
      c.commit();
      first += compare(theirs, ours, first);
    }
  }
}

void raw_packets() {
  GoldenDevice device{"wqe1"};
  CU_ASSERT_TRUE_FATAL(device.ok());
  std::mt19937_64 random{46};
  for (int round = 0; round < 20; round++) {
    GoldenQp theirs{device, IBV_QPT_RAW_PACKET};
    GoldenQp ours{device, IBV_QPT_RAW_PACKET};
    CU_ASSERT_TRUE_FATAL(theirs.ok());
    CU_ASSERT_TRUE_FATAL(ours.ok());
    std::vector<uint64_t> ids(ours.geometry.wqebb_count);
    queue::Sq sq{ours.geometry, ids};
    uint32_t first = 0;
    for (int i = 0; i < 6; i++) {
      Request r = random_request(random, prm::Opcode::send);
      r.solicited = r.fence = false;
      for (ibv_sge& s : r.sges) s.length = 64 + s.length % 1400;
      EQUAL_FATAL(by_libmlx5(theirs, r), 0);
      const std::vector<queue::Sge> list = pieces_of(r);
      queue::WqeCursor c{sq};
      CU_ASSERT_TRUE_FATAL(list.size() == 1
                               ? queue::eth_send(c, list[0], queue::EthOffload::none, wr_of(r))
                               : queue::eth_send(c, std::span<const queue::Sge>{list},
                                                 queue::EthOffload::none, wr_of(r)));
      c.commit();
      first += compare(theirs, ours, first);
    }
  }
}

// Two queues of raw packets and their rings, not yet used.
struct RawTwins {
  GoldenQp theirs, ours;
  std::vector<uint64_t> ids;
  queue::Sq sq;
  uint32_t first = 0;

  explicit RawTwins(GoldenDevice& device)
      : theirs(device, IBV_QPT_RAW_PACKET),
        ours(device, IBV_QPT_RAW_PACKET),
        ids(ours.geometry.wqebb_count),
        sq(ours.geometry, ids) {
    CU_ASSERT_TRUE_FATAL(theirs.ok());
    CU_ASSERT_TRUE_FATAL(ours.ok());
  }
  // Posts the request by libmlx5 and this packet by Kilim.
  void post(ibv_send_wr& wr, const queue::EthHead& head, std::span<const queue::Sge> pieces) {
    ibv_send_wr* bad = nullptr;
    EQUAL_FATAL(ibv_post_send(theirs.qp, &wr, &bad), 0);
    const bool signalled = (wr.send_flags & IBV_SEND_SIGNALED) != 0;
    queue::WqeCursor c{sq};
    CU_ASSERT_TRUE_FATAL(queue::eth_packet(
        c, head, pieces,
        {.id = 1, .flags = signalled ? queue::WrFlags::signalled : queue::WrFlags::none}));
    c.commit();
    first += compare(theirs, ours, first);
  }
};

constexpr uint8_t both_checksums = queue::EthOffload::l3 | queue::EthOffload::l4;

// Headers of 14 to 192 bytes, of which no place in the WQE is spared.
void segmented_packets() {
  GoldenDevice device{"wqe2"};
  CU_ASSERT_TRUE_FATAL(device.ok());
  std::mt19937_64 random{47};
  std::array<uint8_t, test::max_tso_header> headers{};
  for (int round = 0; round < 30; round++) {
    RawTwins twins{device};
    for (int i = 0; i < 6; i++) {
      for (uint8_t& b : headers) b = static_cast<uint8_t>(random());
      Request r = random_request(random, prm::Opcode::send);
      for (ibv_sge& s : r.sges) s.length = 64 + s.length % 1400;
      ibv_send_wr wr{};
      wr.sg_list = r.sges.data();
      wr.num_sge = static_cast<int>(r.sges.size());
      wr.opcode = IBV_WR_TSO;
      wr.tso.hdr = headers.data();
      wr.tso.hdr_sz = static_cast<uint16_t>(14 + random() % (headers.size() - 13));
      wr.tso.mss = static_cast<uint16_t>(1 + random() % 9000);
      wr.send_flags = (r.signalled ? unsigned{IBV_SEND_SIGNALED} : 0u) |
                      (r.fence ? unsigned{IBV_SEND_IP_CSUM} : 0u);
      twins.post(wr,
                 {.checksums = r.fence ? both_checksums : queue::EthOffload::none,
                  .mss = wr.tso.mss,
                  .bytes = std::as_bytes(std::span(headers)).first(wr.tso.hdr_sz)},
                 pieces_of(r));
    }
  }
}

// A device that wants 18 bytes; libmlx5 collects them from the first pieces.
void inlined_headers() {
  GoldenDevice device{"wqe3", "inline-l2"};
  CU_ASSERT_TRUE_FATAL(device.ok());
  std::mt19937_64 random{48};
  std::array<uint8_t, 8 * 256> memory{};
  constexpr uint32_t wanted = 18;
  for (int round = 0; round < 30; round++) {
    RawTwins twins{device};
    for (int i = 0; i < 6; i++) {
      for (uint8_t& b : memory) b = static_cast<uint8_t>(random());
      Request r = random_request(random, prm::Opcode::send);
      std::vector<uint8_t> header;
      std::vector<queue::Sge> rest;
      for (std::size_t n = 0; n < r.sges.size(); n++) {
        ibv_sge& s = r.sges[n];
        s.addr = reinterpret_cast<uint64_t>(&memory[n * 256]);
        s.length = n != 0 ? 4 + s.length % 200 : (r.sges.size() == 1 ? 18u : 14u) + s.length % 20;
        const auto taken = std::min(s.length, wanted - static_cast<uint32_t>(header.size()));
        header.insert(header.end(), &memory[n * 256], &memory[n * 256 + taken]);
        rest.push_back({s.addr + taken, s.length - taken, Lkey{s.lkey}});
      }
      ibv_send_wr wr{};
      wr.sg_list = r.sges.data();
      wr.num_sge = static_cast<int>(r.sges.size());
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = r.signalled ? unsigned{IBV_SEND_SIGNALED} : 0u;
      twins.post(wr, {.bytes = std::as_bytes(std::span(header))}, rest);
    }
  }
}

const kilim::test::Case cases[] = {
    {"140 random requests of a reliable connection", reliable_connections},
    {"120 random frames of a raw packet queue", raw_packets},
    {"180 packets to be segmented", segmented_packets},
    {"180 frames whose beginning is in the WQE", inlined_headers},
};

}  // namespace
}  // namespace wqe_golden_ut

KILIM_TEST_SUITE(wqe, wqe_golden_ut::cases)
