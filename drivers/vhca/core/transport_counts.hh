// SPDX-License-Identifier: BSD-3-Clause
// Queues count here what they asked, answered, repeated and refused, under the names of the
// kernel's hw_counters (Linux drivers/infiniband/hw/mlx5/counters.c). Which of them an error moves
// was measured on a ConnectX-6 and a ConnectX-5 (unionxic/rdma-fault-characterization,
// counter_mapping_findings.md); what was not follows NVIDIA's "Understanding mlx5 Linux Counters".
// Written with the adapter's lock held; plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kilim::vhca {

enum class TransportCount : uint8_t {
  rx_write_requests,
  rx_read_requests,
  rx_atomic_requests,
  out_of_sequence,    // packets behind one that is missing
  duplicate_request,  // packets that have come before
  rnr_nak_retry_err,  // RNR NAKs that came
  packet_seq_err,     // NAKs of a sequence error that came
  implied_nak_seq_err,
  local_ack_timeout_err,    // timers that ran out, but for the one that ends the queue
  resp_local_length_error,  // of completions, as all that follow
  resp_cqe_error,
  resp_cqe_flush_error,
  req_cqe_error,
  req_cqe_flush_error,
  req_remote_invalid_request,
  req_remote_access_errors,
  req_transport_retries_exceeded,
  req_rnr_retries_exceeded,
  end
};
inline constexpr std::size_t transport_counts = static_cast<std::size_t>(TransportCount::end);

inline constexpr std::array<const char*, transport_counts> transport_count_names{
    "rx_write_requests",
    "rx_read_requests",
    "rx_atomic_requests",
    "out_of_sequence",
    "duplicate_request",
    "rnr_nak_retry_err",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "resp_local_length_error",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_invalid_request",
    "req_remote_access_errors",
    "req_transport_retries_exceeded",
    "req_rnr_retries_exceeded",
};

struct TransportCounts {
  std::array<uint64_t, transport_counts> of{};
  uint64_t rnr_naks = 0;  // receives that were missing: part of the port's out_of_buffer

  void add(TransportCount what, uint64_t n = 1) noexcept {
    of[static_cast<std::size_t>(what)] += n;
  }
  [[nodiscard]] uint64_t at(TransportCount what) const noexcept {
    return of[static_cast<std::size_t>(what)];
  }
};

}  // namespace kilim::vhca
