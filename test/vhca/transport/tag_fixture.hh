// SPDX-License-Identifier: BSD-3-Clause
// A client that sends to a queue whose shared receive queue matches tags, between two queues of one
// adapter or between two adapters with a wire; list operations by WQEs put together by hand. Owner:
// one test case, one thread: it runs the adapters in turn.
#pragma once

#include <algorithm>
#include <memory>

#include "kilim/detail/base/mmio.hh"
#include "kilim/prm/av_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/tag_matching.hh"
#include "ut.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {

using prm::TagNews;
using prm::TmhOp;

inline constexpr uint32_t tags = 32, receives = 16, slot = 512;
inline constexpr uint64_t all = ~uint64_t{0};
inline constexpr uint64_t fetched_at = 32768;  // the client's data of a rendezvous

struct Headers {
  prm::Tmh tmh{};
  prm::Rvh rvh{};
};

// What a completion says.
struct News {
  prm::CqeOpcode op;
  TagNews news;
  Syndrome syndrome;
  uint16_t place, wqe, hw_count;
  bool success;
  uint32_t bytes, uidx;
  uint64_t tag;  // of the header that the entry carries
};

inline Profile with_tags() {
  Profile p;
  p.log_max_tags = 5;
  return p;
}

// A client that sends to a queue of `server` whose shared queue matches tags.
class TagBench {
 public:
  explicit TagBench(bool wire) {
    if (wire) {
      LinkShape s;
      s.profile = with_tags();
      s.timeout = 4;
      s.retry_cnt = 3;
      wires = std::make_unique<WireRig>(s);
      shape = s;
      server = &wires->right;
      sender = &wires->left;
    } else {
      RigShape s;
      s.profile = with_tags();
      s.connect = false;
      rig = std::make_unique<Rig>(s);
      sender = server = rig.get();
    }
    client = wire ? &sender->b : &sender->a;
    client_cq = wire ? &sender->cq_b : &sender->cq_a;
    client_key = sender->reg(from, rw_access).rkey.value();
    server_key = server->reg(to, rw_access).lkey.value();
    make_queues();
    connect(wire);
  }

  void make_queues() {
    SrqSpec spec;
    spec.pd = server->pd;
    spec.buf = ring.va();
    spec.record = record.va();
    spec.wqes = receives;
    spec.wqe_shift = 6;
    spec.uidx = 0x77;
    spec.tags = tags;
    spec.cq = server->cq_b.cqn;
    Result<uint32_t> made = hca::create_srq(*server->hca, spec, &server->events);
    CU_ASSERT_TRUE_FATAL(made.ok());
    srqn = *made;
    for (TestQp* qp : {&queue, &command}) {
      QpSpec s;
      s.pd = server->pd;
      s.send_cq = s.recv_cq = server->cq_a.cqn;
      s.buf = qp->rings.va();
      s.sq_buf = qp->sq.va();
      s.record = qp->record.va();
      s.sq_wqebbs = qp->shape.sq_wqebbs;
      s.uar_page = server->uar_page;
      s.srqn = srqn;
      s.owner = qp;
      Result<Qpn> qpn = hca::create_qp(*server->hca, s, &server->events);
      CU_ASSERT_TRUE_FATAL(qpn.ok());
      qp->qpn = *qpn;
    }
  }
  void connect(bool wire) {
    if (!wire) {
      // As patient as on a wire: a slow machine asks for a receive more often.
      WireRig::connect(*sender, {*client, queue.qpn, QpType::rc}, test_mac, shape, 0, 0);
      WireRig::connect(*server, {queue, client->qpn, QpType::rc}, test_mac, shape, 0, 0);
      server->to_rts(command, command.qpn);
      return;
    }
    WireRig::connect(*sender, {*client, queue.qpn, QpType::rc}, right_mac, shape, 7, 9);
    WireRig::connect(*server, {queue, client->qpn, QpType::rc}, left_mac, shape, 9, 7);
    WireRig::connect(*server, {command, command.qpn, QpType::rc}, right_mac, shape, 0, 0);
  }

  void run() {
    while (sender->hca->run() + (server != sender ? server->hca->run() : 0) != 0) {
    }
  }
  // The entry that is next, or will be.
  static News read(const TestCq& cq) {
    prm::Cqe c;
    std::memcpy(&c, cq.memory.data() + std::size_t{cq.ci & (cq.entries - 1)} * cq.entry_bytes,
                sizeof(c));
    prm::TagCqe t;
    prm::Tmh h;
    prm::ErrCqe e;
    std::memcpy(&t, &c, sizeof(t));
    std::memcpy(&h, &c, sizeof(h));
    std::memcpy(&e, &c, sizeof(e));
    const auto op = prm::cqe::opcode_of(c.op_own);
    const bool error = op == prm::CqeOpcode::req_err || op == prm::CqeOpcode::resp_err;
    const bool tagged = !error && c.app == prm::tag::app_tag_matching;
    return {op,
            tagged ? static_cast<TagNews>(c.app_op) : TagNews::none,
            error ? static_cast<Syndrome>(e.syndrome) : Syndrome::none,
            c.app_info.host(),
            c.wqe_counter.host(),
            t.hw_count.host(),
            (t.success.host() & prm::tag::success) != 0,
            c.byte_cnt.host(),
            c.srqn_uidx.host(),
            h.tag.host()};
  }
  static std::optional<News> take(TestCq& cq) {
    const News n = read(cq);
    return cq.poll() ? std::optional<News>(n) : std::nullopt;
  }
  News wait(TestCq& cq) {
    for (int i = 0; i < 50'000; i++) {
      run();
      if (std::optional<News> n = take(cq)) return *n;
      ::usleep(50);
    }
    CU_FAIL_FATAL("no completion");
    return {};
  }
  News news() { return wait(server->cq_b); }
  // Nothing more has come.
  bool quiet() {
    run();
    return !server->cq_b.poll() && !client_cq->poll();
  }

  News operate(prm::TagSeg seg, const wq::TagBuffer* buffer = nullptr) {
    seg.flags |= prm::tag::flag_completion;
    put(seg, buffer);
    return wait_for_command();
  }
  void put(const prm::TagSeg& seg, const wq::TagBuffer* buffer) {
    Wqe w(Opcode::tag_matching);
    w.raw(&seg, sizeof(seg));
    if (buffer != nullptr) w.data(buffer->addr, static_cast<uint32_t>(buffer->bytes), buffer->key);
    command.put(w.quiet());
    command.ring(server->uar);
  }
  // An operation's own completion, or that of its failure.
  News wait_for_command() {
    for (int i = 0; i < 50'000; i++) {
      run();
      for (TestCq* cq : {&server->cq_b, &server->cq_a}) {
        if (std::optional<News> n = take(*cq)) return *n;
      }
      ::usleep(50);
    }
    CU_FAIL_FATAL("no completion of a list operation");
    return {};
  }
  // The n-th slot of the server's memory waits for a tag.
  News append(uint64_t tag, uint64_t mask, unsigned n, uint64_t bytes = slot) {
    prm::TagSeg seg{};
    seg.opcode = static_cast<uint8_t>(prm::TagOp::append) << prm::tag::opcode_shift;
    seg.index = be16{++next};
    seg.tag = be64{tag};
    seg.mask = be64{mask};
    if (synced >= 0) {
      seg.flags = prm::tag::flag_sw_count;
      seg.sw_count = be16{static_cast<uint16_t>(synced)};
    }
    wq::TagBuffer buffer{tag, mask, to.at(n * slot), bytes, server_key};
    const News got = operate(seg, &buffer);
    EQUAL(got.news, TagNews::append);
    CU_ASSERT_TRUE(got.success);
    EQUAL(got.uidx, 0x77);
    return got;
  }
  News remove(uint16_t entry) {
    prm::TagSeg seg{};
    seg.opcode = static_cast<uint8_t>(prm::TagOp::remove) << prm::tag::opcode_shift;
    seg.index = be16{entry};
    return operate(seg);
  }
  News sync(uint16_t count) {
    prm::TagSeg seg{};
    seg.flags = prm::tag::flag_sw_count;
    seg.sw_count = be16{count};
    return operate(seg);
  }
  // A receive WQE into the n-th slot.
  void receive(unsigned n) {
    std::byte* at = ring.data() + std::size_t{posted % receives} * 64;
    prm::SrqNextSeg link{};
    link.next_wqe_index = be16{static_cast<uint16_t>((posted + 1) % receives)};
    prm::DataSeg data{be32{slot}, be32{server_key}, be64{to.at(n * slot)}};
    prm::DataSeg end{be32{0}, be32{prm::list_end_lkey}, be64{0}};
    std::memcpy(at, &link, sizeof(link));
    std::memcpy(at + 16, &data, sizeof(data));
    std::memcpy(at + 32, &end, sizeof(end));
    record_store(reinterpret_cast<be32*>(record.data()), be32{++posted});
  }

  void post(TmhOp op, uint64_t tag, uint32_t bytes, unsigned seed = 1) {
    Headers h;
    h.tmh.opcode = static_cast<uint8_t>(op);
    h.tmh.app_ctx = be32{0xabcd};
    h.tmh.tag = be64{tag};
    h.rvh = {be64{from.at(fetched_at)}, be32{client_key ^ header_key}, be32{fetch_bytes}};
    for (uint32_t i = 0; i < bytes; i++)
      from.data()[place + i] = static_cast<std::byte>(seed * 31 + i * 7);
    const std::size_t head = op == TmhOp::rendezvous ? sizeof(h) : sizeof(h.tmh);
    std::memcpy(from.data() + place, &h, std::min<std::size_t>(head, bytes));
    const Opcode send = invalidates != 0 ? Opcode::send_inval : Opcode::send;
    client->put(Wqe(send, invalidates).data(from.at(place), bytes, client_key));
    client->ring(sender->uar);
  }
  // Sends, and waits until the client is told that it has arrived.
  Syndrome send(TmhOp op, uint64_t tag, uint32_t bytes, unsigned seed = 1) {
    post(op, tag, bytes, seed);
    return wait(*client_cq).syndrome;
  }
  // Whether the n-th slot begins with the last message's bytes from `skip` on.
  [[nodiscard]] bool holds(unsigned n, uint32_t skip, uint32_t bytes) const {
    return std::memcmp(to.data() + std::size_t{n} * slot, from.data() + skip, bytes) == 0;
  }
  void rendezvous(uint32_t bytes) {
    fetch_bytes = bytes;
    for (uint32_t i = 0; i < bytes; i++)
      from.data()[fetched_at + i] = static_cast<std::byte>(i * 13 + 5);
  }
  void client_receive(uint32_t at) { client->recv(from.at(at), 64, client_key); }

 private:
  std::unique_ptr<WireRig> wires;
  std::unique_ptr<Rig> rig;
  LinkShape shape;

 public:
  Rig* server = nullptr;
  Rig* sender = nullptr;
  TestQp* client = nullptr;
  TestCq* client_cq = nullptr;
  Pages from{65536}, to{65536};
  Pages ring{std::size_t{receives} * 64}, record{64};
  TestQp queue{{64, 0, 6, false, QpType::rc}}, command{{64, 0, 6, false, QpType::rc}};
  uint32_t header_key = 0;   // what is wrong with the key in a header
  uint32_t invalidates = 0;  // the key that messages are to invalidate; 0: none
  uint32_t client_key = 0, server_key = 0, srqn = 0, posted = 0, fetch_bytes = 0;
  uint16_t next = 0;
  uint32_t place = 0;  // where messages are put together
  int synced = -1;     // what appends say of handled messages; below 0: nothing
};

// Each case on both ways.
template <typename F>
void both(F&& body) {
  for (bool wire : {false, true}) {
    TagBench b(wire);
    body(b);
    CU_ASSERT_TRUE(b.quiet());
  }
}

inline bool is(const News& n, TagNews news, uint16_t place, uint32_t bytes) {
  return n.news == news && n.place == place && n.bytes == bytes && n.uidx == 0x77;
}

}  // namespace kilim::vhca::test
