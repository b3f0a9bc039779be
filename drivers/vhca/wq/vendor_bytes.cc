// SPDX-License-Identifier: BSD-3-Clause
// The public report of each stands beside it; "dump" means an entry that was printed whole.
#include "vhca/wq/vendor_bytes.hh"

#include "kilim/prm/opcode.hh"

namespace kilim::vhca::wq {

namespace {

using prm::Syndrome;

// Local protection. A key that is none: openucx/ucx 7801 and 9167 (receive, 0x32 with 0x92), 6414
// and 2888 (SEND, dumps). A key of another domain: spdk/spdk 961 (SEND, dump); Linux, net/mlx5e,
// SHAMPO headers (receive, dump). Beyond the region, or a right that it has not: Juniper/warp17 81
// (raw SEND, dumps); unionxic/rdma-fault-characterization, counter_mapping_findings.md (WRITE 0x52
// and 0x53, READ 0x33). Memory that cannot be read: linux-rdma/perftest 173 (0x51), or written:
// Linux, NVMe-oF receive and AMD-Vi IO_PAGE_FAULT (dump).
VendorBytes of_protection(uint8_t cause, DataWay way) noexcept {
  const bool gather = way == DataWay::gather;
  switch (cause) {
    case hardware::no_key:
    case hardware::other_domain:
      return {static_cast<uint8_t>(gather ? 0x52 : 0x32), cause};
    case hardware::bounds:
      return {static_cast<uint8_t>(gather ? 0x53 : 0x33), cause};
    case hardware::unreadable:
      return gather ? VendorBytes{0x51, cause} : VendorBytes{0x56, hardware::unwritable};
    default:
      return {};
  }
}

// What cannot be executed as it is written. A send WQE: Linux, net/mlx5 reports on missing inline
// headers and on an opcode of none (dumps); a receive WQE: openucx/ucx 11444.
VendorBytes of_request(uint8_t cause, DataWay way) noexcept {
  constexpr uint8_t of_inline_headers = 0x10;
  if (way == DataWay::receive) return {0xd6};
  return {0x68, cause, cause == hardware::no_inline_headers ? of_inline_headers : uint8_t{0}};
}

}  // namespace

VendorBytes vendor_bytes(const Verdict& v, DataWay way) noexcept {
  switch (v.syndrome) {
    case Syndrome::local_prot:
      return of_protection(v.hardware, way);
    case Syndrome::local_length:
      return v.hardware == hardware::no_inline_headers ? of_request(v.hardware, way)
                                                       : VendorBytes{};
    case Syndrome::local_qp_op:
      return of_request(v.hardware, way);
    case Syndrome::wr_flush:  // linux-nvme/nvme-cli 3268
      return {0xf9};
    case Syndrome::mw_bind:  // Linux, RDMA/mlx5 reports on UMRs (dumps)
      return {0x78, v.hardware};
    case Syndrome::remote_inval_req:  // charmplusplus/charm 2532
      return {0x8a};
    case Syndrome::remote_access:  // ofiwg/libfabric 4283 (dump)
      return {0x88};
    case Syndrome::remote_op:  // openucx/ucx 5472
      return {0x89};
    case Syndrome::transport_retry_exc:  // openucx/ucx 6871
      return {0x81};
    case Syndrome::rnr_retry_exc:  // a dump; counter_mapping_findings.md too
      return {0x87};
    default:
      return {};
  }
}

DataWay way_of_send(uint8_t wqe_opcode) noexcept {
  switch (static_cast<prm::Opcode>(wqe_opcode)) {
    case prm::Opcode::rdma_read:
    case prm::Opcode::atomic_cs:
    case prm::Opcode::atomic_fa:
    case prm::Opcode::atomic_masked_cs:
    case prm::Opcode::atomic_masked_fa:
      return DataWay::scatter;
    default:
      return DataWay::gather;
  }
}

}  // namespace kilim::vhca::wq
