// SPDX-License-Identifier: BSD-3-Clause
// Questions are asked with these: a device, its reliable loopback pair, send WQEs and completion
// entries as bytes. All of it lives as long as the child process that opens it, and nothing is
// given back: the kernel does that. Whatever cannot be set up ends the child as "not run". One
// thread. Never touches a queue, rule or region that it did not make.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "question.hh"

namespace kilim::exam {

double seconds_now();
int errno_now();

using CqeBytes = std::array<uint8_t, 64>;

// A completion entry's last sixteen bytes, taken apart.
struct Completion {
  CqeBytes bytes;
  [[nodiscard]] uint8_t opcode() const { return bytes[63] >> 4; }
  [[nodiscard]] bool failed() const { return opcode() == 13 || opcode() == 14; }
  [[nodiscard]] uint8_t syndrome() const { return failed() ? bytes[55] : uint8_t{0}; }
  [[nodiscard]] uint8_t vendor() const { return bytes[54]; }
  [[nodiscard]] uint16_t index() const { return static_cast<uint16_t>(bytes[60] << 8 | bytes[61]); }
  [[nodiscard]] uint32_t byte_count() const {
    return uint32_t{bytes[44]} << 24 | uint32_t{bytes[45]} << 16 | uint32_t{bytes[46]} << 8 |
           bytes[47];
  }
  // "ok", or "0x04 vendor 0x51 hardware 0x92": what is the same in each run.
  [[nodiscard]] std::string text() const;
};

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  bool devx = false;  // the device was opened with firmware commands
  uint8_t gid_index = 0;
  bool has_gid = false;
  bool ethernet = false;
  bool umr_sets_atomics = true;
  ibv_gid gid{};
  ibv_port_attr port{};
  ibv_device_attr_ex attr{};
  Answer* answer = nullptr;

  // Zeroed pages, mapped, `bytes` rounded up.
  [[nodiscard]] uint8_t* pages(std::size_t bytes) const;
  [[nodiscard]] ibv_mr* reg(void* at, std::size_t bytes, int access = all_access) const;
  // Runs a firmware command; the kernel's errno, or EREMOTEIO with `status` of the firmware.
  int command(Bytes in, std::vector<uint8_t>& out) const;
  // A field of the general capabilities, current; nothing without DevX.
  [[nodiscard]] std::optional<uint32_t> capability(uint16_t group, uint16_t bit,
                                                   uint16_t width) const;

  static constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
};

// The setting's device, or `name`; ends the child where there is none.
Device open_device(const Setting& setting, Answer& answer, const std::string& name = {});
// Ends the child: `what` was refused with `error`.
[[noreturn]] void give_up(Answer& answer, const char* what, int error = errno_now());

// A completion queue that is read as the device writes it.
class CompletionQueue {
 public:
  CompletionQueue() = default;
  CompletionQueue(const Device& device, ibv_cq* cq);
  static CompletionQueue make(const Device& device, int entries, ibv_cq_init_attr_ex attr = {},
                              mlx5dv_cq_init_attr* mlx5 = nullptr);
  // The next entry; nothing within the time.
  std::optional<Completion> next(double seconds = 5);
  // An entry in place, counted from the next one; its owner is not asked.
  [[nodiscard]] uint8_t* entry(uint32_t number) const;
  // Gives back `count` entries that the caller has read in place.
  void skip(uint32_t count);
  ibv_cq* cq = nullptr;
  mlx5dv_cq view{};

 private:
  uint32_t consumed_ = 0;
};

// A send WQE under construction: the control segment comes with post().
struct Wqe {
  uint8_t opcode;
  uint8_t opmod = 0;
  uint8_t flags = 8;  // fm_ce_se: completion always; a fence in bits 7:5
  uint32_t imm = 0;
  std::vector<uint8_t> body;

  template <typename T>
  Wqe& add(const T& segment) {
    return add_bytes(&segment, sizeof segment);
  }
  Wqe& add_bytes(const void* from, std::size_t bytes);
  Wqe& data(const void* at, uint32_t bytes, uint32_t lkey);
  Wqe& data(uint64_t at, uint32_t bytes, uint32_t lkey);
  Wqe& remote(uint64_t at, uint32_t rkey);
  Wqe& fenced(uint8_t mode) {
    flags = static_cast<uint8_t>(flags | mode << 5);
    return *this;
  }
  Wqe& silent() {
    flags = static_cast<uint8_t>(flags & ~0x0c);
    return *this;
  }
};

class SendQueue {
 public:
  SendQueue() = default;
  explicit SendQueue(ibv_qp* qp);
  // Puts it into the ring; false: it is longer than a WQE may be (63 octowords).
  bool put(const Wqe& wqe);
  void ring();
  bool post(const Wqe& wqe) {
    const bool fits = put(wqe);
    ring();
    return fits;
  }
  void reset() { produced_ = rung_ = 0; }
  mlx5dv_qp view{};

 private:
  uint32_t qpn_ = 0;
  uint32_t produced_ = 0, rung_ = 0;
  std::array<uint8_t, 8> control_{};
};

struct QpWish {
  ibv_qp_type type = IBV_QPT_RC;
  uint32_t send = 64, receive = 64, sge = 4, inline_bytes = 512;
  uint64_t mlx5_flags = 0;                    // MLX5DV_QP_CREATE_*
  CompletionQueue* send_cq = nullptr;         // null: one of its own
  mlx5dv_cq_init_attr* receive_cq = nullptr;  // what its receive queue's is to have; null: nothing
};

struct Queue {
  ibv_qp* qp = nullptr;
  CompletionQueue sent, received;
  SendQueue sq;
  std::vector<ibv_flow*> rules;  // which keep it from being destroyed

  void receive(const void* at, uint32_t bytes, uint32_t lkey);
  int modify(ibv_qp_state state);
  // With its rules; its completion queues stay.
  void destroy();
  // Posts and waits for its completion; ends the child where none comes.
  Completion run(const Wqe& wqe, Answer& answer);
};

Queue make_queue(const Device& device, const QpWish& wish);

struct Timers {
  uint8_t timeout = 14, retries = 3, rnr_retries = 1, rnr_timer = 1;
};

// The peer that a queue leads to, and how; a raw packet queue has none, and ignores it.
struct Path {
  const Device& there;
  uint32_t qpn = 0;
  Timers timers{};
  int gid_index = -1;  // -1: the device's own choice
  uint8_t hops = 64;
};

// Two queues of one device, connected.
struct Loop {
  Queue a, b;
};
Loop make_loop(const Device& device, const QpWish& wish = {}, const Timers& timers = {});
int connect(const Device& here, Queue& q, const Path& path);

Wqe rdma_write(const void* from, uint32_t bytes, uint32_t lkey, uint64_t to, uint32_t rkey);
Wqe rdma_read(const void* into, uint32_t bytes, uint32_t lkey, uint64_t from, uint32_t rkey);
Wqe send(const void* from, uint32_t bytes, uint32_t lkey);

inline uint64_t place(const void* at) {
  return reinterpret_cast<uint64_t>(at);
}

}  // namespace kilim::exam
