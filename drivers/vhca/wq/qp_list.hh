// SPDX-License-Identifier: BSD-3-Clause
// A list of queue pairs threaded through the queue pairs themselves, first in first out. Owner: the
// engine; adapter's lock held. Never allocates.
#pragma once

#include "vhca/wq/qp.hh"

namespace kilim::vhca::wq {

template <QpLink Qp::*Link>
class QpList {
 public:
  [[nodiscard]] Qp* front() const noexcept { return head_; }
  [[nodiscard]] static Qp* after(const Qp& qp) noexcept { return (qp.*Link).next; }
  [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
  // At the end; no effect where it is listed already.
  void push(Qp& qp) noexcept {
    QpLink& l = qp.*Link;
    if (l.listed) return;
    l = {nullptr, tail_, true};
    (tail_ != nullptr ? (tail_->*Link).next : head_) = &qp;
    tail_ = &qp;
  }
  void remove(Qp& qp) noexcept {
    QpLink& l = qp.*Link;
    if (!l.listed) return;
    (l.prev != nullptr ? (l.prev->*Link).next : head_) = l.next;
    (l.next != nullptr ? (l.next->*Link).prev : tail_) = l.prev;
    l = {};
  }

 private:
  Qp* head_ = nullptr;
  Qp* tail_ = nullptr;
};

using ReadyList = QpList<&Qp::ready>;
using ErrorList = QpList<&Qp::in_error>;

}  // namespace kilim::vhca::wq
