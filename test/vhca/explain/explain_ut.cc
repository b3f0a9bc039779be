// SPDX-License-Identifier: BSD-3-Clause
// Why a request failed, in a sentence: each cause is provoked, and what the sentence says of queue,
// WQE, segment, key and range is compared with what was posted. The requester's, the responder's,
// and what is told once and counted.
#include <string>
#include <vector>

#include "explain_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace explain_ut {
namespace {

struct Row {
  const char* name;
  Wqe (*make)(ExplainBench&);
  std::vector<std::string> (*facts)(ExplainBench&);
};

using Facts = std::vector<std::string>;

// clang-format off
const Row rows[] = {
    {"an unknown lkey", [](ExplainBench& t) { return t.write_from(0x77777700); },
     [](ExplainBench& t) { return Facts{"queue " + hex(t.a.qpn.value()) + ", WQE 0 (RDMA_WRITE): IBV_WC_LOC_PROT_ERR: segment 0 asks key 0x77777700 for 64 bytes at " + hex(t.src.at(0)) + ", for local read: ", "no key has index 0x777777; the nearest that exists is "}; }},
    {"an lkey in the other byte order", [](ExplainBench& t) { return t.write_from(__builtin_bswap32(t.good_src.lkey.value())); },
     [](ExplainBench& t) { return Facts{"with its bytes swapped it is a key, " + hex(t.good_src.lkey.value())}; }},
    {"a freed lkey", [](ExplainBench& t) { return t.write_from(t.freed); },
     [](ExplainBench& t) { return Facts{"it was freed: key " + hex(t.freed) + " had 8192 bytes from " + hex(t.dst.at(0)) + " to " + hex(t.dst.at(8192))}; }},
    {"an lkey with another tag", [](ExplainBench& t) { return t.write_from(t.stale); },
     [](ExplainBench& t) { return Facts{"the low byte, is " + hex(t.stale & 0xff), "the key is called " + hex(t.good.lkey.value()) + " now: tag " + hex(t.good.lkey.value() & 0xff) + " would be right"}; }},
    {"an lkey of another protection domain", [](ExplainBench& t) { return t.write_from(t.other_pd.lkey.value()); },
     [](ExplainBench& t) { return Facts{"segment 0 asks key " + hex(t.other_pd.lkey.value()), ", the queue of " + hex(t.pd.value()) + ": make both from one ibv_pd"}; }},
    {"a key that shows nothing yet", [](ExplainBench& t) { return t.write_from(t.invalid); },
     [](ExplainBench&) { return Facts{"the key is free: it was invalidated, or no UMR or bind has filled it yet"}; }},
    {"a range longer than its key", [](ExplainBench& t) { return t.write(t.good_src.lkey.value(), t.good.rkey.value(), 8200); },
     [](ExplainBench& t) { return Facts{"for 8200 bytes at " + hex(t.src.at(0)), "the key has 8192 bytes from " + hex(t.src.at(0)) + " to " + hex(t.src.at(8192)) + ", the last 8 bytes lie beyond"}; }},
    {"a range before its key", [](ExplainBench& t) { return Wqe(Opcode::rdma_write).raddr(t.dst.at(0), t.good.rkey.value()).data(t.src.at(0) - 4, 8, t.good_src.lkey.value()); },
     [](ExplainBench&) { return Facts{", the range begins before"}; }},
    {"the second segment", [](ExplainBench& t) { return t.write_from(t.good_src.lkey.value()).data(t.src.at(64), 32, 0x77777700); },
     [](ExplainBench& t) { return Facts{"segment 1 asks key 0x77777700 for 32 bytes at " + hex(t.src.at(64))}; }},
    {"an answer into memory that is read only", [](ExplainBench& t) { return Wqe(Opcode::rdma_read).raddr(t.dst.at(0), t.good.rkey.value()).data(t.dst.at(64), 8, t.read_only.lkey.value()); },
     [](ExplainBench&) { return Facts{"(RDMA_READ): IBV_WC_LOC_PROT_ERR", "for local write: the key does not grant local write, it grants local read, remote read"}; }},
    {"an entry of a list", [](ExplainBench& t) { return Wqe(Opcode::rdma_write).raddr(t.dst.at(0), t.good.rkey.value()).data(0, 64, t.broken_list()); },
     [](ExplainBench& t) { return Facts{"entry 1 of the list of key ", " names key 0x66666600 and 32 bytes at " + hex(t.src.at(64)) + ": no key has index 0x666666"}; }},
    {"a range longer than what a UMR filled", [](ExplainBench& t) { return Wqe(Opcode::rdma_write).raddr(0, t.filled()).data(t.src.at(0), 72, t.good_src.lkey.value()); },
     [](ExplainBench& t) { return Facts{"the key has 64 bytes from 0x0 to 0x40, the last 8 bytes lie beyond; queue " + hex(t.a.qpn.value()) + " filled it by WQE 0, ", " us before"}; }},
    {"a key that a request invalidated", [](ExplainBench& t) { const uint32_t key = t.filled(); return Wqe(Opcode::rdma_write).raddr(0, t.filled_then(key, Wqe(Opcode::local_inval, key))).data(t.src.at(0), 8, t.good_src.lkey.value()); },
     [](ExplainBench& t) { return Facts{"or no UMR or bind has filled it yet; queue " + hex(t.a.qpn.value()) + " invalidated it by WQE ", " us before"}; }},
    {"a key that a peer invalidated", [](ExplainBench& t) { const uint32_t key = t.filled(); return Wqe(Opcode::rdma_write).raddr(0, t.filled_then(key, Wqe(Opcode::send_inval, key).data(t.src.at(0), 8, t.good_src.lkey.value()))).data(t.src.at(0), 8, t.good_src.lkey.value()); },
     [](ExplainBench& t) { return Facts{"; queue " + hex(t.b.qpn.value()) + " received the SEND that invalidated it in receive WQE 0, "}; }},
    {"an unknown rkey", [](ExplainBench& t) { return t.write_to(0x77777700); },
     [](ExplainBench& t) { return Facts{"queue " + hex(t.b.qpn.value()) + " refuses a request of its peer, queue " + hex(t.a.qpn.value()) + ", which gets IBV_WC_REM_ACCESS_ERR: segment 0 asks key 0x77777700 for 64 bytes at " + hex(t.dst.at(0)) + ", for remote write: no key has index 0x777777",
       "queue " + hex(t.a.qpn.value()) + ", WQE 0 (RDMA_WRITE): IBV_WC_REM_ACCESS_ERR: it asks rkey 0x77777700 of its peer for 64 bytes at " + hex(t.dst.at(0)) + "; queue " + hex(t.b.qpn.value()) + " refused it: no such key; that queue's own sentence says why"}; }},
    {"a right that the peer's key lacks", [](ExplainBench& t) { return t.write_to(t.read_only.rkey.value()); },
     [](ExplainBench&) { return Facts{"for remote write: the key does not grant remote write, it grants local read, remote read"}; }},
    {"an atomic where the key grants none", [](ExplainBench& t) { return Wqe(Opcode::atomic_fa).raddr(t.dst.at(0), t.read_only.rkey.value()).atomic(1, 0).data(t.src.at(0), 8, t.good_src.lkey.value()); },
     [](ExplainBench& t) { return Facts{"asks key " + hex(t.read_only.rkey.value()) + " for 8 bytes at " + hex(t.dst.at(0)) + ", for atomics: the key does not grant atomics", "(ATOMIC_FA): IBV_WC_REM_ACCESS_ERR"}; }},
    {"a READ that the peer's queue forbids", [](ExplainBench& t) { QpAttr attr; attr.access = access::remote_write; EQUAL(hca::modify_qp(*t.hca, t.b.qpn, attr, qp_mask::access), 0); return Wqe(Opcode::rdma_read).raddr(t.dst.at(0), t.good.rkey.value()).data(t.src.at(0), 8, t.good_src.lkey.value()); },
     [](ExplainBench& t) { return Facts{"queue " + hex(t.b.qpn.value()) + " refuses a request of its peer", "which gets IBV_WC_REM_INV_REQ_ERR: the queue takes no RDMA READ; it was given qp_access_flags 0x2 and max_dest_rd_atomic 16"}; }},
    {"a message longer than its receive", [](ExplainBench& t) { return t.send_into(63, t.good.lkey.value()); },
     [](ExplainBench& t) { return Facts{"queue " + hex(t.b.qpn.value()) + ", receive WQE 0: IBV_WC_LOC_LEN_ERR: the message has 64 bytes at least and its 1 segment holds 63", "(SEND): IBV_WC_REM_INV_REQ_ERR: queue " + hex(t.b.qpn.value()) + " refused it: message longer than its receive WQE"}; }},
    {"a receive into memory that is read only", [](ExplainBench& t) { return t.send_into(64, t.read_only.lkey.value()); },
     [](ExplainBench& t) { return Facts{"receive WQE 0: IBV_WC_LOC_PROT_ERR: segment 0 asks key " + hex(t.read_only.lkey.value()), "for local write: the key does not grant local write", "IBV_WC_REM_OP_ERR"}; }},
    {"a UMR of a region", [](ExplainBench& t) { return umr_wqe(t.good.lkey.value(), {}, {}); },
     [](ExplainBench& t) { return Facts{"(UMR): IBV_WC_MW_BIND_ERR: UMR of a key that allows none; it changes key " + hex(t.good.lkey.value()) + ", which is valid", "and a region, which no work request changes"}; }},
    {"a READ of too many segments", [](ExplainBench& t) { Wqe w(Opcode::rdma_read); w.raddr(t.dst.at(0), t.good.rkey.value()); for (int i = 0; i < 31; i++) w.data(t.src.at(0), 1, t.good_src.lkey.value()); return w; },
     [](ExplainBench&) { return Facts{"(RDMA_READ): IBV_WC_LOC_QP_OP_ERR: a READ of more than 512 bytes"}; }},
    {"nothing to receive into", [](ExplainBench& t) { return Wqe(Opcode::send).data(t.src.at(0), 64, t.good_src.lkey.value()); },
     [](ExplainBench& t) { return Facts{"(SEND): IBV_WC_RNR_RETRY_EXC_ERR: queue " + hex(t.b.qpn.value()) + " had no receive request posted, 3 retries later neither"}; }},
};
// clang-format on

void each_cause_has_its_sentence() {
  for (const Row& row : rows) {
    ExplainBench t;
    const Wqe wqe = row.make(t);
    const std::string text = stderr_of([&] {
      t.a.put(wqe);
      t.a.ring(t.uar);
      (void)t.wait(t.cq_a);
    });
    const int before = static_cast<int>(CU_get_number_of_failures());
    for (const std::string& fact : row.facts(t)) says(text, fact);
    if (static_cast<int>(CU_get_number_of_failures()) != before)
      std::printf("\n    (%s)", row.name);
  }
}

// A key's index may be another key's later, of which nothing is known then.
void a_destroyed_key_has_no_history() {
  ExplainBench t;
  const uint32_t key = t.filled();
  t.hca->explainer->key_ends(*t.hca->keys.at(key >> 8));
  const std::string text = stderr_of([&] {
    t.a.put(Wqe(Opcode::rdma_write).raddr(0, key).data(t.src.at(0), 72, t.good_src.lkey.value()));
    t.a.ring(t.uar);
    (void)t.wait(t.cq_a);
  });
  says(text, "the key has 64 bytes from 0x0 to 0x40");
  CU_ASSERT(text.find("filled it by") == std::string::npos);
}

// What the peer lacks is looked up on the same device.
void a_peer_that_does_not_answer_is_described() {
  const auto told = [](void (*spoil)(ExplainBench&)) {
    ExplainBench t;
    spoil(t);
    const std::string peer = "the path leads to this device and its queue " + hex(t.b.qpn.value());
    const std::string text = stderr_of([&] {
      t.a.put(t.write_to(t.good.rkey.value()));
      t.a.ring(t.uar);
      (void)t.wait(t.cq_a);
    });
    says(text, "(RDMA_WRITE): IBV_WC_RETRY_EXC_ERR: ");
    says(text, peer);
    return text;
  };
  says(told([](ExplainBench& t) { EQUAL(hca::destroy_qp(*t.hca, t.b.qpn, &t.b), 0); }),
       ", which does not exist: was it destroyed");
  says(told([](ExplainBench& t) { EQUAL(t.to_state(t.b, QpState::reset), 0); }),
       ", which is in state RESET: it answers from RTR on");
  says(told([](ExplainBench& t) {
         EQUAL(t.to_state(t.b, QpState::reset), 0);
         t.to_rts(t.b, t.b.qpn);
       }),
       ", not to this");
}

void a_cause_is_told_once_a_queue_and_counted() {
  ExplainBench t;
  const auto fail = [&] {
    t.a.put(t.write_from(0x77777700));
    t.a.ring(t.uar);
    EQUAL(t.wait(t.cq_a)->syndrome, Syndrome::local_prot);
    EQUAL(t.to_state(t.a, QpState::reset), 0);
    t.a.pi = 0;
    t.a.publish();
    t.to_rts(t.a, t.b.qpn);
  };
  EQUAL(lines_of(stderr_of(fail)), 1);
  EQUAL(lines_of(stderr_of(fail)), 0);
  EQUAL(lines_of(stderr_of(fail)), 0);
  EQUAL(t.hca->explainer->failures(), 3);
  const std::string sum = stderr_of([&] { t.hca->explainer->sum_up(); });
  says(sum, "3 failures and refusals of 1 causes, and 0 requests flushed");
  says(sum, "queue " + hex(t.a.qpn.value()) + ": 3 times: no such key");
}

void a_refusals_sum_says_n_for_its_numbers() {
  ExplainBench t;
  explain::Explainer& e = *t.hca->explainer;
  const auto refuse = [&] {
    e.verb_fails("ibv_x: {0d} of {1x} at most", "ibv_x: 5 of 0x4 at most");
  };
  EQUAL(lines_of(stderr_of(refuse)), 1);
  EQUAL(lines_of(stderr_of(refuse)), 0);
  says(stderr_of([&] { e.sum_up(); }), "2 times: ibv_x: n of n at most\n");
}

void flushes_are_counted_and_the_first_is_told() {
  ExplainBench t;
  for (int i = 0; i < 5; i++) t.a.put(t.write_from(i == 0 ? 0x77777700 : t.good_src.lkey.value()));
  const std::string text = stderr_of([&] {
    t.a.ring(t.uar);
    t.run();
    while (t.cq_a.poll()) {
    }
  });
  EQUAL(lines_of(text), 2);
  says(text, "queue " + hex(t.a.qpn.value()) +
                 ", WQE 1: IBV_WC_WR_FLUSH_ERR: it was not executed, "
                 "since the queue is in state ERR");
  says(text, "the error that was told before took it there");
  EQUAL(t.hca->explainer->flushed(), 4);
}

void a_queue_that_the_program_ends_says_so() {
  ExplainBench t;
  t.b.recv(t.dst.at(0), 64, t.good.lkey.value());
  const std::string text = stderr_of([&] {
    EQUAL(t.to_state(t.b, QpState::err), 0);
    t.run();
  });
  says(text, "receive WQE 0: IBV_WC_WR_FLUSH_ERR");
  says(text, "no request of it had failed: ibv_modify_qp() or its peer took it there");
}

void the_journal_has_the_same_as_fields() {
  char path[] = "/tmp/explain_ut.XXXXXX";
  const int file = ::mkstemp(path);
  CU_ASSERT_FATAL(file >= 0);
  auto journal = Journal::open(path, Journal::Format::text, "vhca0");
  CU_ASSERT_FATAL(journal.ok());
  RigShape shape = explained();
  shape.journal = journal->get();
  ExplainBench t(shape);
  (void)stderr_of([&] { (void)t.run_one(t.a, t.write_from(0x77777700)); });
  (*journal)->close();
  std::string text(100000, '\0');
  const ssize_t n = ::pread(file, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  ::close(file);
  ::unlink(path);
  says(text, " explained qp=" + hex(t.a.qpn.value()) +
                 " index=0 key=0x77777700 at=" + hex(t.src.at(0)) + " bytes=0x40 queue ");
  says(text, " explained=1");
}

void off_it_says_nothing() {
  ExplainBench t(explained(false));
  EQUAL(t.hca->explainer == nullptr, true);
  EQUAL(stderr_of([&] { (void)t.run_one(t.a, t.write_from(0x77777700)); }), "");
}

using kilim::test::Case;
const Case cases[] = {
    {"each cause has its sentence", each_cause_has_its_sentence},
    {"a destroyed key has no history", a_destroyed_key_has_no_history},
    {"a peer that does not answer is described", a_peer_that_does_not_answer_is_described},
    {"a cause is told once a queue and counted", a_cause_is_told_once_a_queue_and_counted},
    {"a refusal's sum says n for its numbers", a_refusals_sum_says_n_for_its_numbers},
    {"flushes are counted and the first is told", flushes_are_counted_and_the_first_is_told},
    {"a queue that the program ends says so", a_queue_that_the_program_ends_says_so},
    {"the journal has the same as fields", the_journal_has_the_same_as_fields},
    {"off it says nothing", off_it_says_nothing},
};

}  // namespace
}  // namespace explain_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(explain, kilim::vhca::test::explain_ut::cases)
