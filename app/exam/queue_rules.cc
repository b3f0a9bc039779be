// SPDX-License-Identifier: BSD-3-Clause
// E3, E28, E29, E34, E36: sizes of requests, completion queues, what a raw queue takes.
#include <algorithm>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <poll.h>

#include "question.hh"
#include "raw_packets.hh"
#include "rig.hh"
#include "umr.hh"

namespace kilim::exam {
namespace {

constexpr uint32_t piece = 16;

struct Bench {
  Device d;
  QpWish wish{.sge = 30, .inline_bytes = 0};
  Loop l;
  uint8_t* at;
  ibv_mr* mr;

  Bench(const Setting& setting, Answer& answer)
      : d(open_device(setting, answer)),
        l(make_loop(d, wish)),
        at(d.pages(65536)),
        mr(d.reg(at, 65536)) {}
  void again() { l = make_loop(d, wish); }
};

// A WRITE or a READ of `count` pieces; "ok" only if all bytes came.
std::string in_pieces(Bench& b, uint8_t opcode, uint32_t count) {
  uint8_t *here = b.at, *there = b.at + 32768;
  for (uint32_t i = 0; i < count * piece; i++) {
    here[i] = static_cast<uint8_t>(i * 7 + 1);
    there[i] = static_cast<uint8_t>(i * 5 + 2);
  }
  Wqe w{.opcode = opcode, .body = {}};
  w.remote(place(there), b.mr->rkey);
  for (uint32_t i = 0; i < count; i++) w.data(here + std::size_t{i} * piece, piece, b.mr->lkey);
  if (!b.l.a.sq.post(w)) return "longer than a WQE";
  const auto done = b.l.a.sent.next(2);
  if (!done || done->failed()) {
    b.again();
    return done ? done->text() : "no completion";
  }
  return std::equal(here, here + count * piece, there) ? "ok" : "wrong data";
}

void ask_reads(const Setting& setting, Answer& answer) {
  Bench b(setting, answer);
  uint32_t most = 0;
  for (const uint32_t count : {29u, 30u, 31u, 32u, 61u}) {
    const std::string seen = in_pieces(b, MLX5_OPCODE_RDMA_READ, count);
    answer.fact(printed("%u pieces", count), seen);
    if (seen == "ok") most = count;
  }
  answer.verdict(most == 30 ? "30 pieces" : most > 30 ? "more than 30" : "fewer");
}

constexpr Meaning reads_mean[] = {
    {"30 pieces", "READ WQEs end at 512 bytes, as the library has it"},
    {"more than 30", "the limit of 512 bytes for READs goes"},
    {"fewer", "READs of 30 pieces fail: the limit is lower, see the facts"},
};

void ask_longest(const Setting& setting, Answer& answer) {
  Bench b(setting, answer);
  uint32_t most = 0;
  for (const uint32_t count : {58u, 59u, 60u, 61u}) {
    const std::string seen = in_pieces(b, MLX5_OPCODE_RDMA_WRITE, count);
    answer.fact(printed("WRITE of %u octowords", count + 2), seen);
    if (seen == "ok") most = count + 2;
  }
  const auto limit = b.d.capability(0, 0x290, 16);
  answer.fact("max_wqe_sz_sq", limit ? printed("%u", *limit) : "unknown");
  answer.verdict(most == 63 ? "63 octowords" : most >= 60 ? "60 or more" : "fewer");
}

constexpr Meaning longest_means[] = {
    {"63 octowords", "the longest WQE is what its length field holds"},
    {"60 or more", "the library's longest WQE follows max_wqe_sz_sq"},
    {"fewer", "the library's longest WQE follows max_wqe_sz_sq"},
};

// The next event of the device within `seconds`, as libibverbs names it.
std::string next_event(const Device& d, double seconds) {
  const int flags = ::fcntl(d.context->async_fd, F_GETFL);
  ::fcntl(d.context->async_fd, F_SETFL, flags | O_NONBLOCK);
  pollfd p{d.context->async_fd, POLLIN, 0};
  ibv_async_event event{};
  if (::poll(&p, 1, static_cast<int>(seconds * 1000)) <= 0) return "none";
  if (ibv_get_async_event(d.context, &event) != 0) return "none";
  std::string name = ibv_event_type_str(event.event_type);
  ibv_ack_async_event(&event);
  return name;
}

void ask_overrun(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  CompletionQueue small = CompletionQueue::make(d, 8);
  Loop l = make_loop(d, {.send_cq = &small});
  uint8_t* at = d.pages(4096);
  ibv_mr* mr = d.reg(at, 4096);
  for (uint32_t i = 0; i < small.view.cqe_cnt + 4; i++)
    l.a.sq.put(rdma_write(at, 8, mr->lkey, place(at + 64), mr->rkey));
  l.a.sq.ring();
  const std::string event = next_event(d, 1);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ibv_query_qp(l.a.qp, &attr, IBV_QP_STATE, &init);
  answer.fact("entries", printed("%u", small.view.cqe_cnt));
  answer.fact("event", event);
  answer.fact("state of the sending queue", printed("%d", attr.qp_state));
  answer.verdict(event == "none"                                 ? "silent"
                 : event == ibv_event_type_str(IBV_EVENT_CQ_ERR) ? "the queue's event"
                                                                 : "another event");
}

constexpr Meaning overrun_means[] = {
    {"the queue's event", "an overrun queue reaches the port by its event"},
    {"another event", "Mlx5Device::lost() has to take this event for an overrun too"},
    {"silent", "an overrun queue is told by nothing: sizes have to make it impossible"},
};

// Says where the bytes of a message are behind its completion.
std::string place_of_data(const std::optional<Completion>& done, const uint8_t* memory) {
  if (!done || done->failed()) return done ? done->text() : "no completion";
  const unsigned format = done->bytes[63] >> 2 & 3;
  if (format == 1) return "in the entry, its first half";
  if (format == 2) return "in the entry, 64 bytes";
  return memory[0] == 0x42 ? "in memory" : "nowhere";
}

void ask_inline(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  uint8_t* at = d.pages(4096);
  ibv_mr* mr = d.reg(at, 4096);
  bool any = false;
  for (const uint32_t bytes : {16u, 32u, 33u}) {
    Loop l = make_loop(d);
    std::memset(at, 0x42, 64);
    std::memset(at + 1024, 0, 64);
    l.b.receive(at + 1024, 64, mr->lkey);
    l.a.sq.post(send(at, bytes, mr->lkey));
    const std::string seen = place_of_data(l.b.received.next(2), at + 1024);
    answer.fact(printed("RECV of %u bytes", bytes), seen);
    any = any || seen.starts_with("in the entry");
    l.a.sent.next(2);
    std::memset(at + 1024, 0, 64);
    l.a.sq.post(rdma_read(at + 1024, bytes, mr->lkey, place(at), mr->rkey));
    answer.fact(printed("READ of %u bytes", bytes), place_of_data(l.a.sent.next(2), at + 1024));
  }
  answer.verdict(any ? "in the entry" : "in memory");
}

constexpr Meaning inline_means[] = {
    {"in the entry",
     "short messages come in completion entries, as the guide of inline receive says"},
    {"in memory", "profile no-inline is the card: a row of the guide of inline receive"},
};

void ask_raw_umr(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  Queue raw = make_raw_queue(d);
  mlx5dv_mkey* key = make_key(d, 4);
  uint8_t* at = d.pages(4096);
  ibv_mr* mr = d.reg(at, 4096);
  const Completion c = raw.run(umr(covering(d, key, {klm(at, 64, mr->lkey)})), answer);
  answer.fact("the UMR", c.text());
  answer.verdict(c.failed() ? "refused" : "done");
}

constexpr Meaning raw_umr_means[] = {
    {"refused",
     "UMRs need a queue of their own: the loopback pair stays, or a DevX queue with reg_umr"},
    {"done", "UMRs may stand among packets: the loopback pair is not needed"},
};

constexpr Question rows[] = {
    {"E3", "a UMR on a raw packet queue", needs::raw, Disturbs::nothing, 10, raw_umr_means,
     "the error of such a request", "cannot fail here: no profile's raw queues take UMRs",
     ask_raw_umr},
    {"E28", "READs of many pieces", 0, Disturbs::nothing, 20, reads_mean,
     "the error of a READ that is too long", "--fault wqe@2", ask_reads},
    {"E29", "the longest WQEs", 0, Disturbs::nothing, 20, longest_means,
     "max_wqe_sz_sq of the profile", "--fault wqe@4", ask_longest},
    {"E34", "a completion queue that overruns", 0, Disturbs::nothing, 10, overrun_means,
     "which event, and what becomes of the queue pair", "--fault fatal@1", ask_overrun},
    {"E36", "short messages in completion entries", 0, Disturbs::nothing, 20, inline_means,
     "sizes that come in entries", "--profile no-inline", ask_inline},
};

}  // namespace

std::span<const Question> queue_questions() {
  return rows;
}

}  // namespace kilim::exam
