// SPDX-License-Identifier: BSD-3-Clause
// What a responder of this process refuses, and why a receive request of it fails. Adapter's lock
// held. Never allocates.
#include <array>

#include "kilim/prm/syndrome.hh"
#include "vhca/explain/explainer.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca::explain {

void Explainer::message_too_long(const wq::Qp& qp, uint64_t bytes) noexcept {
  long_queue_ = qp.qpn.value();
  long_bytes_ = bytes;
}

void Explainer::receive_fails(const wq::Qp& qp, uint16_t wqe_index, const Verdict& v) noexcept {
  const uint32_t number = qp.qpn.value();
  const bool news = told_.is_news(number, false, v.why);
  std::array<char, 1200> buffer;
  prm::Text t{buffer};
  About about{number, wqe_index};
  put_place(t, qp, wqe_index,
            qp.srq != nullptr ? "receive WQE of its shared queue" : "receive WQE");
  t.put(prm::verbs_name(v.syndrome)).put(": ");
  wq::RecvWqe wqe;
  const bool read = wq::read_recv(qp, wqe_index, wqe);
  if (v.syndrome == prm::Syndrome::local_length && read && long_queue_ == number) {
    t.put("the message has ").dec(long_bytes_).put(" bytes at least and its ").dec(wqe.count);
    t.put(wqe.count == 1 ? " segment holds " : " segments hold ").dec(wqe.room);
    t.put(qp.type == QpType::ud ? ": post 40 bytes more than the longest datagram, for the GRH"
                                : ": post as much as the longest message has");
    about.bytes = long_bytes_;
  } else if (!read || !put_list(t, {{wqe.segments.data(), wqe.count}, wq::recv_access(qp)},
                                wqe.room, about)) {
    t.put(v.why);
  }
  long_queue_ = 0;
  tell(about, news, t.view());
}

void Explainer::request_refused(const wq::Qp& qp, const tpt::SegmentList& asked,
                                const Verdict& v) noexcept {
  const uint32_t number = qp.qpn.value();
  const bool news = told_.is_news(number, false, v.why);
  std::array<char, 1200> buffer;
  prm::Text t{buffer};
  About about{number, qp.rq.ci};
  t.put("queue ").hex(number).put(" refuses a request of its peer, queue ");
  t.hex(qp.attr.dest_qpn.value()).put(", which gets ").put(prm::verbs_name(v.syndrome)).put(": ");
  if (asked.segments.empty() || !put_list(t, asked, asked.segments[0].bytes, about)) t.put(v.why);
  if (v.syndrome == prm::Syndrome::remote_inval_req && asked.segments.empty()) {
    t.put("; it was given qp_access_flags ").hex(qp.attr.access);
    t.put(" and max_dest_rd_atomic ").dec(qp.attr.max_dest_rd_atomic).put(" by ibv_modify_qp()");
  }
  if (qp.type == QpType::uc) t.put("; an unreliable connection drops it without an answer");
  tell(about, news, t.view());
}

}  // namespace kilim::vhca::explain
