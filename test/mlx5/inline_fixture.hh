// SPDX-License-Identifier: BSD-3-Clause
// A connection to itself on a virtual device, made for inline receive: entries of either size, a
// receive queue of its own or a shared one, and receive slots that show whether they were touched.
// One thread; everything is released by the destructors.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/inline_recv.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/srq.hh"
#include "mlx5_fixture.hh"
#include "ut.hh"

namespace kilim::test {

struct InlineShape {
  device::Transport transport = device::Transport::rc;
  uint32_t cqe_bytes = 64;
  bool shared = false;
  device::InlineReceive wish = device::InlineReceive::by_default;
  device::RecvMemory memory = device::RecvMemory::addressed;
  bool signal_all = false;
};

constexpr std::byte letter(uint64_t message, uint64_t i) {
  return static_cast<std::byte>((message * 2654435761u >> 16) + i * 7 + message);
}

struct InlineLoop {
  static constexpr uint32_t slots = 16;  // receives; the completion queue has as many entries
  static constexpr uint32_t slot_bytes = 128;
  static constexpr std::byte untouched{0xcc};

  device::Device& device;
  std::vector<std::byte> memory;  // receive slots, then what is sent
  std::optional<mr::Mr> mr;
  device::OwnedCq scq, rcq;
  device::OwnedSrq shared;
  device::OwnedQp qp;
  std::vector<uint64_t> send_ids, recv_ids;
  std::optional<queue::Cq> send_cq, recv_cq;
  std::optional<queue::Sq> sq;
  std::optional<queue::Rq> rq;
  std::optional<queue::Srq> srq;
  queue::InlineCounters sent_inlined, inlined;

  InlineLoop(device::Device& d, const InlineShape& shape)
      : device(d), memory(std::size_t{2} * slots * slot_bytes, untouched) {
    auto region = mr::Mr::create(d.registrar(), memory, mr::Access::all, 4096);
    auto a = device::create_cq(d, {.entries = slots - 1, .cqe_bytes = shape.cqe_bytes});
    auto b = device::create_cq(d, {.entries = slots - 1, .cqe_bytes = shape.cqe_bytes});
    if (!region || !a || !b) return;
    mr.emplace(*std::move(region));
    scq = *std::move(a);
    rcq = *std::move(b);
    if (shape.shared) {
      auto s = device::create_srq(d, {.recv_wrs = slots - 1});
      if (!s) return;
      shared = *std::move(s);
    }
    if (!create_qp(shape)) return;
    send_ids.resize(qp->sq.wqebb_count);
    send_cq.emplace(scq->geometry);
    recv_cq.emplace(rcq->geometry);
    sq.emplace(qp->sq, send_ids);
    recv_ids.resize(shape.shared ? shared->geometry.wqe_count : qp->rq.wqe_count);
    if (shape.shared)
      srq.emplace(shared->geometry, recv_ids);
    else
      rq.emplace(qp->rq, recv_ids);
  }
  [[nodiscard]] bool ok() const { return recv_cq.has_value(); }

  bool create_qp(const InlineShape& shape) {
    const device::QpRequest queues{.send_cq = scq->handle,
                                   .recv_cq = rcq->handle,
                                   .send_wqebbs = 64,
                                   .recv_wrs = shape.shared ? 0 : slots,
                                   .srq = shape.shared ? shared->handle : device::SrqHandle{},
                                   .inline_receive = shape.wish,
                                   .recv_memory = shape.memory};
    auto made =
        shape.transport == device::Transport::uc
            ? device::create_uc(device, {.queues = queues, .access = mr::Access::remote_write})
            : device::create_rc(
                  device,
                  {.queues = queues, .access = mr::Access::all, .signal_all = shape.signal_all});
    if (!made) return false;
    qp = *std::move(made);
    auto self = device.endpoint(qp->handle);
    return self.ok() && device.connect(qp->handle, *self).ok();
  }

  [[nodiscard]] std::byte* slot(uint64_t i) { return &memory[i % slots * slot_bytes]; }
  [[nodiscard]] std::byte* source(uint64_t i) { return slot(i) + slots * slot_bytes; }
  [[nodiscard]] queue::Sge sge(const std::byte* at, uint32_t bytes) const {
    return {reinterpret_cast<uint64_t>(at), bytes, mr->region().lkey};
  }
  [[nodiscard]] queue::Remote remote(const std::byte* at) const {
    return {reinterpret_cast<uint64_t>(at), mr->region().rkey};
  }

  bool post(uint64_t number, uint32_t bytes = slot_bytes) {
    std::memset(slot(number), static_cast<int>(untouched), slot_bytes);
    const queue::Sge into = sge(slot(number), bytes);
    const bool done = srq ? srq->post(into, number) : rq->post(into, number);
    if (srq) srq->ring();
    if (rq) rq->ring();
    return done;
  }
  uint64_t retire(uint16_t counter) { return srq ? srq->retire(counter) : rq->retire(counter); }

  bool send(uint64_t number, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++) source(number)[i] = letter(number, i);
    queue::WqeCursor c{*sq};
    const bool done = queue::send(c, sge(source(number), bytes),
                                  {.id = number, .flags = queue::WrFlags::signalled});
    c.commit();
    return done;
  }

  struct Seen {
    queue::Completion completion;
    std::array<std::byte, 64> data;  // that its entry carried
    std::size_t bytes = 0;
  };
  // Lets the device work until `cq` has a completion.
  std::optional<Seen> wait(queue::Cq& cq, queue::InlineCounters& counters) {
    Seen seen;
    for (int turn = 0; turn < 20000; turn++) {
      const uint32_t n = queue::for_each_completion(
          cq, 1, counters, [&](const queue::Completion& c, std::span<const std::byte> data) {
            seen.completion = c;
            seen.bytes = queue::copy_out(data, seen.data);
          });
      if (n == 1) return seen;
      device.progress();
    }
    return std::nullopt;
  }
  std::optional<Seen> received() { return wait(*recv_cq, inlined); }
  std::optional<Seen> sent() {
    auto seen = wait(*send_cq, sent_inlined);
    if (seen) seen->completion.wr_id = sq->retire(seen->completion.wqe_counter);
    return seen;
  }

  // A message of `bytes` from post to completion: whether it is whole, and that it came in its
  // entry, the posted slot untouched, or in the slot.
  bool message(uint64_t number, uint32_t bytes, bool in_entry) {
    if (!post(number) || !send(number, bytes)) return false;
    const auto r = received();
    const auto s = sent();
    if (!r || !s || !r->completion.ok() || !s->completion.ok()) return false;
    if (retire(r->completion.wqe_counter) != number || r->completion.byte_len != bytes)
      return false;
    if (r->bytes != (in_entry ? bytes : 0)) return false;
    const std::byte* data = in_entry ? r->data.data() : slot(number);
    for (uint32_t i = 0; i < bytes; i++)
      if (data[i] != letter(number, i)) return false;
    for (uint32_t i = in_entry ? 0 : bytes; i < slot_bytes; i++)
      if (slot(number)[i] != untouched) return false;
    return true;
  }
};

inline VirtualDevice& shared_device() {
  static VirtualDevice v{config("inline0")};
  return v;
}

inline device::Device& dev() {
  CU_ASSERT_PTR_NOT_NULL_FATAL(shared_device().device.get());
  return *shared_device().device;
}

// Of inline_recv_many.cc.
std::span<const kilim::test::Case> inline_recv_many_cases();

}  // namespace kilim::test
