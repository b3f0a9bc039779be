// SPDX-License-Identifier: BSD-3-Clause
// Parses the arguments behind a --vdev name: `hca=vhca0,port=1,rxq=1,...`. An argument that is
// unknown, out of range or given twice is refused with a sentence that names it and its range.
// Set-up only; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "attach/resolve.hh"

namespace kilim::net {

// 0 on Intel's Haswell and Broadwell, whose root ports lose by it; else 1 (DPDK 22.11
// drivers/common/mlx5/linux/mlx5_common_verbs.c, mlx5_common_verbs_reg_mr(), and mlx5_common.c,
// haswell_broadwell_cpu; Linux drivers/pci/quirks.c, quirk_relaxedordering_disable()).
uint32_t usual_relaxed_ordering() noexcept;
// By what CPUID says in leaf 1, EAX, of an Intel processor.
bool loses_by_relaxed_ordering(uint32_t signature) noexcept;

// The arguments, with their defaults.
struct Devargs {
  // hca= and the words of virtual devices; the name is empty where there is no hca=.
  DeviceSpec hca{.name = {}};
  uint32_t port = 1;
  uint32_t rxq = 1;
  uint32_t txq = 1;
  uint32_t rxd = 1024;
  uint32_t txd = 1024;
  uint32_t relaxed_ordering = usual_relaxed_ordering();  // relaxed_ordering_en: of packet memory
  // Arguments of the ethdev alone, under the names of DPDK's mlx5 driver.
  uint32_t compress = 0;           // rxq_cqe_comp_en: completions share entries
  uint32_t multi_packet = 1;       // txq_mpw_en: WQEs of several packets, where the device has them
  uint32_t inline_min = 0;         // txq_inline_min: bytes of a frame's start that its WQE has
  uint32_t inline_max = 0;         // txq_inline_max: frames up to this length lie in their WQEs
  uint32_t inline_txqs = 0;        // txqs_min_inline: with fewer queues inline_max is 0
  uint32_t strided = 0;            // mprq_en: receives of several packets
  uint32_t strided_rxqs = 12;      // rxqs_min_mprq: with fewer queues there are none
  uint32_t log_strides = 6;        // mprq_log_stride_num
  uint32_t log_stride_bytes = 11;  // mprq_log_stride_size
  uint32_t copied = 128;           // mprq_max_memcpy_len: longer packets stay where they lie
  uint32_t lro_timeout_us = 0;     // lro_timeout_usec: how long a frame of LRO waits for segments
};

// Why the arguments were refused: a sentence for people.
struct DevargsError {
  std::string why;
};

// `text`: rte_devargs::args of EAL; null or empty: all defaults.
std::variant<Devargs, DevargsError> parse_devargs(const char* text);

// The arguments with their ranges, one on each line, for help texts. Static storage.
const char* devargs_help() noexcept;

}  // namespace kilim::net
