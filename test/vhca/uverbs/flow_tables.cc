// SPDX-License-Identifier: BSD-3-Clause
// Part of uverbs_flow_ut. Flow tables by firmware commands, and the memory of steering by software:
// made and unmade in the order that each needs, refused where a client lies, and any bytes.
#include <random>

#include <rdma/ib_user_ioctl_cmds.h>
#include <sys/mman.h>

#include "firmware_command_fixture.hh"
#include "kilim/prm/flow_table.hh"
#include "receive_request_cases.hh"
#include "vhca/ethernet/soft_steering.hh"

using namespace kilim;
using namespace kilim::test;

namespace flow_tables_ut {
namespace {

namespace fc = prm::flow_cmd;
using DevxCommand = kilim::test::Command;
constexpr std::size_t from_entry = fc::flow_context, destinations = prm::flow_context::destinations;

DevxCommand make_table(uint32_t type = fc::nic_rx) {
  DevxCommand c(prm::cmd::create_flow_table, fc::table_bytes);
  c.set(0, fc::table_type, type);
  return c;
}
DevxCommand make_group(uint32_t of) {
  DevxCommand c(prm::cmd::create_flow_group, fc::group_bytes);
  c.set(0, fc::table_id, of);
  return c;
}
// An entry of one destination, another table, and one counter.
DevxCommand make_entry(uint32_t of, uint32_t to, uint32_t counter) {
  namespace f = prm::flow_context;
  DevxCommand c(prm::cmd::set_flow_table_entry, fc::entry_bytes + 2 * f::destination_bytes);
  c.set(0, fc::table_id, of).set(from_entry, f::action, f::forward | f::count);
  c.set(from_entry, f::destination_list_size, 1).set(from_entry, f::flow_counter_list_size, 1);
  c.set(from_entry + destinations, f::destination_type, f::to_table);
  c.set(from_entry + destinations, f::destination_id, to);
  c.set32(from_entry + destinations + f::destination_bytes, counter);
  return c;
}

struct TableBench {
  Client c{"sw-steering"};
  DevxCommand first = make_table(), second = make_table(),
              counter{prm::cmd::alloc_flow_counter, prm::flow_counter::command_bytes};
  TableBench() {
    EQUAL(c.opened, 0);
    EQUAL(first.make(c), 0);
    EQUAL(second.make(c), 0);
    EQUAL(counter.make(c), 0);
  }
};

void tables_are_unmade_in_order() {
  TableBench b;
  DevxCommand g = make_group(b.first.made());
  EQUAL_FATAL(g.make(b.c), 0);
  DevxCommand e = make_entry(b.first.made(), b.second.made(), b.counter.made());
  EQUAL_FATAL(e.make(b.c), 0);
  DevxCommand again = make_entry(b.first.made(), b.second.made(), b.counter.made());
  EQUAL(again.make(b.c), -EREMOTEIO);  // there is one entry for all frames
  for (const uint32_t held : {b.first.handle, b.second.handle, g.handle})
    EQUAL(end(b.c, held), -EREMOTEIO);
  EQUAL(end(b.c, e.handle), 0);
  EQUAL(end(b.c, b.second.handle), 0);
  EQUAL(end(b.c, b.first.handle), -EREMOTEIO);
  EQUAL(end(b.c, g.handle), 0);
  EQUAL(end(b.c, b.first.handle), 0);
  EQUAL(b.c.hca->eth.soft->tables.count(), 0);
}

void what_is_left_goes_with_the_open() {
  TableBench b;
  DevxCommand g = make_group(b.first.made());
  EQUAL(g.make(b.c), 0);
  DevxCommand e = make_entry(b.first.made(), b.second.made(), b.counter.made());
  EQUAL(e.make(b.c), 0);
  DevxCommand sampler(prm::cmd::create_general_object, 16 + prm::flow_sampler::bytes);
  sampler.in[7] = prm::cmd::object_flow_sampler;
  sampler.set(16, prm::flow_sampler::sample_table_id, b.first.made());
  sampler.set(16, prm::flow_sampler::default_table_id, b.second.made());
  EQUAL(sampler.make(b.c), -EREMOTEIO);  // no ratio
  sampler.set(16, prm::flow_sampler::sample_ratio, 4);
  EQUAL(sampler.make(b.c), 0);
  b.c.file.reset();
  EQUAL(b.c.hca->eth.soft->tables.count(), 0);
  EQUAL(b.c.hca->eth.soft->samplers.count(), 0);
}

void a_table_says_where_it_lies() {
  TableBench b;
  DevxCommand q(prm::cmd::query_flow_table, 64);
  q.set(0, fc::table_id, b.first.made());
  EQUAL(q.ask(b.c, b.first.handle), 0);
  be64 address;
  std::memcpy(&address, q.out.data() + fc::context + 32, sizeof address);
  EQUAL(address.host(),
        vhca::ethernet::icm_end::address_of(vhca::ethernet::IcmEnd::table, b.first.made()));
  EQUAL(b.first.answer(0, fc::icm_address_31_0), static_cast<uint32_t>(address.host()));
  q.set(0, fc::table_id, b.second.made());
  EQUAL(q.ask(b.c, b.first.handle), -EINVAL);  // another than the handle's
}

struct EntryLie {
  const char* what;
  void (*spoil)(DevxCommand&);
};
constexpr EntryLie of_entries[] = {
    {"a table of nobody", [](DevxCommand& c) { c.set(0, fc::table_id, 0x777); }},
    {"a table of another type", [](DevxCommand& c) { c.set(0, fc::table_type, fc::nic_tx); }},
    {"a destination of nobody",
     [](DevxCommand& c) { c.set32(from_entry + destinations, 0x01000777); }},
    {"a TIR of nobody", [](DevxCommand& c) { c.set32(from_entry + destinations, 0x02000777); }},
    {"an unknown destination",
     [](DevxCommand& c) { c.set32(from_entry + destinations, 0x09000001); }},
    {"a counter of nobody", [](DevxCommand& c) { c.set32(from_entry + destinations + 8, 0x777); }},
    {"more destinations than came",
     [](DevxCommand& c) { c.set(from_entry, prm::flow_context::destination_list_size, 3); }},
    {"as many as there are numbers",
     [](DevxCommand& c) { c.set(from_entry, prm::flow_context::destination_list_size, 0xffffff); }},
    {"both lists too long",
     [](DevxCommand& c) {
       c.set(from_entry, prm::flow_context::flow_counter_list_size, 0xffffff);
     }},
    {"an unknown action",
     [](DevxCommand& c) { c.set(from_entry, prm::flow_context::action, 0x100); }},
    {"destinations of another length",
     [](DevxCommand& c) { c.set(from_entry, prm::flow_context::extended_destination, 1); }},
};

void lies_about_entries_are_refused() {
  TableBench b;
  DevxCommand g = make_group(b.first.made());
  EQUAL(g.make(b.c), 0);
  for (const EntryLie& lie : of_entries) {
    DevxCommand e = make_entry(b.first.made(), b.second.made(), b.counter.made());
    lie.spoil(e);
    EQUAL(e.make(b.c), -EREMOTEIO);
  }
  DevxCommand cut = make_entry(b.first.made(), b.second.made(), b.counter.made());
  cut.in.resize(fc::entry_bytes - 1);
  EQUAL(cut.make(b.c), -EREMOTEIO);
  DevxCommand right = make_entry(b.first.made(), b.second.made(), b.counter.made());
  EQUAL(right.make(b.c), 0);
}

void tables_of_other_kinds_are_refused() {
  TableBench b;
  DevxCommand eswitch = make_table(4), elsewhere = make_table(),
              criteria = make_group(b.first.made()), none = make_group(0x777);
  elsewhere.set(fc::context, prm::flow_table_context::sw_owner, 1).set64(fc::context + 32, 0x40);
  criteria.in[fc::criteria_enable_at] = 1;
  for (DevxCommand* c : {&eswitch, &elsewhere, &criteria, &none}) EQUAL(c->make(b.c), -EREMOTEIO);
  // Without steering by software the firmware's own are there, for RoCE's frames too.
  Client other, infiniband("infiniband");
  DevxCommand plain = make_table(), software = make_table(), rdma = make_table(fc::rdma_tx);
  EQUAL(plain.make(other) | rdma.make(other), 0);
  software.set(fc::context, prm::flow_table_context::sw_owner, 1);
  EQUAL(software.make(other), -EREMOTEIO);
  EQUAL(make_table(fc::rdma_rx).make(infiniband), -EREMOTEIO);
}

int alloc_memory(Client& c, uint64_t type, uint64_t bytes, uint32_t& handle, uint64_t& address) {
  Ioctl io(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
  const int err = io.handle(UVERBS_ATTR_ALLOC_DM_HANDLE)
                      .in(UVERBS_ATTR_ALLOC_DM_LENGTH, bytes)
                      .in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, uint32_t{0})
                      .in(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE, type)
                      .out(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, address)
                      .run(*c.file);
  handle = static_cast<uint32_t>(io.attr(0).data);
  return err;
}

// Who may not steer gets EPERM, here as there.
void memory_of_steering_lies_where_the_adapter_says() {
  Client c("sw-steering");
  uint32_t handle = 0;
  uint64_t address = 0;
  const int err = alloc_memory(c, MLX5_IB_UAPI_DM_TYPE_STEERING_SW_ICM, 5000, handle, address);
  if (err == -EPERM) return;
  EQUAL_FATAL(err, 0);
  EQUAL(address, vhca::ethernet::Icm::steering_start);
  CU_ASSERT(c.hca->eth.soft->icm.steering.at(address + 8192 - 64, 64).size() == 64);
  uint32_t other = 0;
  EQUAL(alloc_memory(c, MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_SW_ICM, 64, other, address), 0);
  EQUAL(address, vhca::ethernet::Icm::rewrite_start);
  EQUAL(alloc_memory(c, MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM, 64, other, address),
        -EOPNOTSUPP);
  for (const uint64_t bytes : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 27})
    EQUAL(alloc_memory(c, MLX5_IB_UAPI_DM_TYPE_STEERING_SW_ICM, bytes, other, address), -EINVAL);
  vhca::uverbs::DeviceFile::Mapping m{};
  EQUAL(c.file->mmap({0x800000, 4096, PROT_READ | PROT_WRITE, MAP_SHARED}, m), -EINVAL);
  // A block of the other kind has the first page of the window, and is found there.
  uint16_t page = 1;
  EQUAL(Ioctl(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC)
            .handle(UVERBS_ATTR_ALLOC_DM_HANDLE)
            .in(UVERBS_ATTR_ALLOC_DM_LENGTH, uint64_t{64})
            .in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, uint32_t{0})
            .out(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, address)
            .out(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, page)
            .run(*c.file),
        0);
  EQUAL(page, 0);
  EQUAL(c.file->mmap({0x800000, 4096, PROT_READ | PROT_WRITE, MAP_SHARED}, m), 0);
  EQUAL(c.destroy(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, UVERBS_ATTR_FREE_DM_HANDLE, handle), 0);
  CU_ASSERT(c.hca->eth.soft->icm.steering.at(vhca::ethernet::Icm::steering_start, 64).empty());
}

void any_bytes_are_an_answer() {
  constexpr uint16_t opcodes[] = {prm::cmd::create_flow_table, prm::cmd::create_flow_group,
                                  prm::cmd::set_flow_table_entry, prm::cmd::alloc_packet_reformat,
                                  prm::cmd::create_general_object};
  TableBench b;
  std::mt19937 dice(5);
  for (int i = 0; i < 20'000; i++) {
    DevxCommand c(opcodes[dice() % std::size(opcodes)], 16 + dice() % 1200);
    const std::size_t changed = dice() % 12;
    for (std::size_t n = 0; n < changed; n++)
      c.in[2 + dice() % (c.in.size() - 2)] = static_cast<uint8_t>(dice());
    if (dice() % 2 != 0 && c.in.size() > 24) c.in[23] = static_cast<uint8_t>(dice() % 4);
    if (c.in[0] == 0xa) c.in[7] = prm::cmd::object_flow_sampler;
    const int err = c.make(b.c);
    CU_ASSERT(err == 0 || err == -EREMOTEIO);
    if (err == 0 && dice() % 2 != 0) (void)end(b.c, c.handle);
  }
}

constexpr Case of_tables[] = {
    {"flow tables are unmade in order", tables_are_unmade_in_order},
    {"what is left of flow tables goes with the open", what_is_left_goes_with_the_open},
    {"a flow table says where it lies", a_table_says_where_it_lies},
    {"lies about entries are refused", lies_about_entries_are_refused},
    {"flow tables of other kinds are refused", tables_of_other_kinds_are_refused},
    {"memory of steering lies where the adapter says",
     memory_of_steering_lies_where_the_adapter_says},
    {"any bytes of a flow table command are an answer", any_bytes_are_an_answer},
};

}  // namespace
}  // namespace flow_tables_ut

std::span<const kilim::test::Case> kilim::test::flow_table_cases() {
  return flow_tables_ut::of_tables;
}
