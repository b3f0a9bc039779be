// SPDX-License-Identifier: BSD-3-Clause
// Says why a request failed: a sentence on standard error when its error entry is written, once a
// queue and cause, and the same as a line of the journal. Owner: the adapter, where it was asked
// for; its lock held in every call. Never allocates, changes nothing of what it looks at.
#pragma once

#include <cstdint>
#include <string_view>

#include "kilim/prm/text.hh"
#include "vhca/core/object_table.hh"
#include "vhca/core/profile.hh"
#include "vhca/explain/key_cause.hh"
#include "vhca/explain/key_history.hh"
#include "vhca/explain/told.hh"
#include "vhca/wq/failure_observer.hh"
#include "vhca/wq/recv_wqe.hh"

namespace kilim::vhca {
class Journal;
}  // namespace kilim::vhca

namespace kilim::vhca::explain {

class Explainer final : public wq::FailureObserver {
 public:
  struct Around {
    const char* device;
    Journal* journal;
    const tpt::KeyTable* keys;
    const Profile* profile;
    const ObjectTable<wq::Qp>* qps;
    const uint64_t* now_ns;  // the adapter's time
  };
  explicit Explainer(const Around& around) noexcept : around_(around) {}

  // explain/sends.cc
  void send_fails(const wq::Qp&, const wq::SendWqe&, const Verdict&) noexcept override;
  // explain/receives.cc
  void receive_fails(const wq::Qp&, uint16_t wqe_index, const Verdict&) noexcept override;
  void message_too_long(const wq::Qp&, uint64_t bytes) noexcept override;
  void request_refused(const wq::Qp&, const tpt::SegmentList& asked,
                       const Verdict&) noexcept override;
  // explain/explainer.cc
  void is_flushed(const wq::Qp&, bool send, uint16_t wqe_index) noexcept override;
  void queue_breaks(const wq::Qp&, const char* why) noexcept override;
  void key_changes(const wq::Qp&, uint16_t wqe_index, uint32_t key,
                   wq::KeyChange) noexcept override;

  // A key is about to be destroyed.
  void key_ends(const tpt::Mkey& m) noexcept {
    freed_.add(m);
    history_.forget(m.index());
  }
  // A verb is refused; `sentence` opens with its name, `cause` lives for ever; `about`, where the
  // cause alone does not tell it from others.
  void verb_fails(const char* cause, std::string_view sentence,
                  const Told::About& about = {}) noexcept;
  // What has been counted, on standard error; nothing where nothing has failed.
  void sum_up() noexcept;
  [[nodiscard]] uint64_t failures() const noexcept { return told_.all(); }
  [[nodiscard]] uint64_t flushed() const noexcept { return flushed_; }

 private:
  // The memory that a sentence is about, for the journal; all zero: none.
  struct About {
    uint32_t queue = 0;
    uint16_t index = 0;
    uint32_t key = 0;
    uint64_t at = 0, bytes = 0;
  };
  void put_send_cause(prm::Text&, const wq::Qp&, const wq::SendWqe&, const Verdict&,
                      About&) noexcept;
  bool put_own_memory(prm::Text&, const wq::Qp&, const wq::SendWqe&, About&) noexcept;
  void put_remote(prm::Text&, const wq::Qp&, const wq::SendWqe&, const Verdict&, About&) noexcept;
  void put_no_answer(prm::Text&, const wq::Qp&) noexcept;
  bool put_loopback_peer(prm::Text&, const wq::Qp&) noexcept;
  void put_changed_key(prm::Text&, const wq::Qp&, const wq::SendWqe&, const Verdict&,
                       About&) noexcept;
  // The first segment of the list that is refused; false: none is.
  bool put_list(prm::Text&, const tpt::SegmentList&, uint64_t bytes, About&) noexcept;
  void tell(const About&, bool news, std::string_view sentence) noexcept;

  Around around_;
  Told told_;
  FreedKeys freed_;
  KeyHistory history_;
  uint64_t flushed_ = 0;
  uint32_t long_queue_ = 0;  // of message_too_long()
  uint64_t long_bytes_ = 0;
};

// "queue 0x41, WQE 3 (RDMA_WRITE): ".
void put_place(prm::Text&, const wq::Qp&, uint16_t wqe_index, const char* what) noexcept;
const char* name_of(QpState) noexcept;

}  // namespace kilim::vhca::explain
