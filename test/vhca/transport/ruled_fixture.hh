// SPDX-License-Identifier: BSD-3-Clause
// For tests: a rule of the frames of an adapter's RDMA queues, as long as this lives. One thread.
#pragma once

#include "ut.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/hca/ports.hh"
#include "vhca/hca/rdma_flows.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

// A rule of all frames, to a table that drops them or lets them go, and what it has seen.
struct Ruled {
  Ruled(Rig& rig, ethernet::TableType type, bool drops) : hca(*rig.hca) {
    table = hca::flow_tables(hca).tables.create(number);
    table->number = number;
    table->type = type;
    table->end.table = table;
    table->has_entry = true;
    table->entry.drops = drops;
    FlowSpec spec;
    spec.by_buffer = true;
    spec.count = &seen;
    Result<uint32_t> made = hca::create_rdma_flow(hca, type, number, spec);
    CU_ASSERT_FATAL(bool(made));
    rule = *made;
  }
  ~Ruled() {
    EQUAL(hca::destroy_flow(hca, rule), 0);
    hca::flow_tables(hca).tables.destroy(number);
  }
  Ruled(const Ruled&) = delete;
  Ruled& operator=(const Ruled&) = delete;

  hca::Hca& hca;
  uint32_t number = 0, rule = 0;
  ethernet::FlowTable* table;
  FlowCount seen;
};

}  // namespace kilim::vhca::test
