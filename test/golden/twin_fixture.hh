// SPDX-License-Identifier: BSD-3-Clause
// Two queue pairs of one device, created alike and connected to themselves: one is written by
// libmlx5, the other by Kilim, and their queue memory is compared. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/sq.hh"
#include "vhca/entry/attach.hh"
#include "vhca/tpt/mkey.hh"

namespace kilim::test {

// A device that is attached for this process, opened with DevX.
class GoldenDevice {
 public:
  explicit GoldenDevice(const char* name, const char* profile = "cx6dx");
  ~GoldenDevice();
  GoldenDevice(const GoldenDevice&) = delete;
  GoldenDevice& operator=(const GoldenDevice&) = delete;

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  void run() { attached_->poll(); }
  [[nodiscard]] bool ok() const { return pd != nullptr; }
  // A key as the device has it.
  [[nodiscard]] const vhca::tpt::Mkey& key(uint32_t lkey) const;

 private:
  vhca::entry::Attached* attached_ = nullptr;
};

inline constexpr uint16_t max_tso_header = 192;  // of a raw packet queue

// One queue pair with its completion queue; both seen through mlx5dv_init_obj.
class GoldenQp {
 public:
  GoldenQp(GoldenDevice& device, ibv_qp_type type);
  ~GoldenQp();
  GoldenQp(const GoldenQp&) = delete;
  GoldenQp& operator=(const GoldenQp&) = delete;

  [[nodiscard]] bool ok() const { return ready_; }
  // Blocks [first, first + count) of the ring, wrapping; the queue pair's number is blanked.
  [[nodiscard]] std::vector<uint8_t> blocks(uint32_t first, uint32_t count) const;
  // The send counter that the doorbell record shows.
  [[nodiscard]] uint32_t posted() const;
  // Runs the device until the one outstanding request has completed; its status.
  ibv_wc_status wait();

  ibv_qp* qp = nullptr;
  ibv_qp_ex* ex = nullptr;
  mlx5dv_qp_ex* dv = nullptr;
  queue::SqGeometry geometry;

 private:
  bool connect();
  GoldenDevice& device_;
  ibv_cq* cq_ = nullptr;
  mlx5dv_qp memory_{};
  bool ready_ = false;
};

// Where the two differ first, or -1.
int first_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b);

}  // namespace kilim::test
