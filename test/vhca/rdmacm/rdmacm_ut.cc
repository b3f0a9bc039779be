// SPDX-License-Identifier: BSD-3-Clause
// rdma_cm by its commands, without librdmacm: ids and addresses here, connections and what hostile
// clients write beside it.
#include "case_tables.hh"
#include "rdmacm_cases.hh"
#include "rdmacm_fixture.hh"

namespace kilim::vhca::test {
namespace rdmacm_ut {
namespace {

using rdmacm::af_ib;
using rdmacm::SockaddrIb;

void ids_are_the_lowest_that_are_free() {
  Channel c;
  const uint32_t a = c.make(), b = c.make();
  EQUAL(b, a + 1);
  EQUAL(c.destroy(a), 0);
  EQUAL(c.make(), a);
  uint32_t none = 0;
  EQUAL(c.create(7, 0x0107, 2, none), -EINVAL);  // of no port space
}

void an_address_is_an_adapters_or_any() {
  Channel c;
  EQUAL(c.bind(c.make(), ip("127.0.0.1")), 0);
  EQUAL(c.bind(c.make(), ip("::1")), 0);
  EQUAL(c.bind(c.make(), ip("0.0.0.0")), 0);
  EQUAL(c.bind(c.make(), ip("10.9.0.1")), 0);
  EQUAL(c.bind(c.make(), ip("10.9.0.2")), -EADDRNOTAVAIL);
  EQUAL(c.bind(c.make(), ip("fe80::1")), -EINVAL);  // of no interface
  const uint32_t id = c.make();
  EQUAL(c.bind(id, ip("127.0.0.1")), 0);
  EQUAL(c.bind(id, ip("127.0.0.1")), -EINVAL);  // bound already
}

// cma_any_addr(): 127.0.0.1 is an adapter's here, so it is 127.0.0.9 that shows the kernel's rule.
void a_loopback_address_of_nobody_is_any() {
  Channel c;
  rdma_ucm_event_resp e{};
  const uint32_t listener = c.make(), id = c.make();
  EQUAL(c.bind(listener, ip("127.0.0.9", 7020)), 0);
  EQUAL(c.listen(listener), 0);
  EQUAL(c.bind(c.make(), ip("10.9.0.1", 7020)), -EADDRNOTAVAIL);  // its port is every adapter's
  EQUAL(c.bind(c.make(), ip("0.0.0.0", 7020)), -EADDRNOTAVAIL);
  // addr_handler(): no device has it as a source, but by nobody's address it goes to ourselves.
  EQUAL(c.bind(id, ip("127.0.0.9", 7021)), 0);
  EQUAL(c.resolve(id, ip("10.9.0.7", 7003)), 0);
  EQUAL(c.next(e), number(EventType::addr_error));
  EQUAL(static_cast<int>(e.status), -ENODEV);
  EQUAL(c.resolve(id, ip("0.0.0.0", 7020)), 0);
  EQUAL(c.next(e), number(EventType::addr_resolved));
}

// cma_select_ib_ps(); librdmacm asks so whether AF_IB is there.
void an_infiniband_address_names_a_port_space() {
  Channel c;
  sockaddr_storage a{};
  auto& ib = reinterpret_cast<SockaddrIb&>(a);
  ib.family = af_ib;
  ib.sid = htobe64(uint64_t{RDMA_PS_TCP} << 16);
  ib.sid_mask = htobe64(0xffffffffffff0000);
  EQUAL(c.bind(c.make(RDMA_PS_IB), a), 0);
  EQUAL(c.bind(c.make(RDMA_PS_UDP), a), -EPROTONOSUPPORT);
  ib.address[0] = 0xfe;
  EQUAL(c.bind(c.make(RDMA_PS_IB), a), -ENODEV);
}

void a_port_is_one_ids() {
  Channel c;
  const int on = 1;
  EQUAL(c.bind(c.make(), ip("127.0.0.1", 7001)), 0);
  EQUAL(c.bind(c.make(), ip("127.0.0.1", 7001)), -EADDRINUSE);
  EQUAL(c.bind(c.make(), ip("0.0.0.0", 7001)), -EADDRNOTAVAIL);
  EQUAL(c.bind(c.make(), ip("10.9.0.1", 7001)), 0);
  EQUAL(c.bind(c.make(RDMA_PS_UDP), ip("127.0.0.1", 7001)), 0);
  // Two that both say so share one, but neither listens.
  const uint32_t a = c.make(), b = c.make();
  EQUAL(c.option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)), 0);
  EQUAL(c.option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)), 0);
  EQUAL(c.bind(a, ip("127.0.0.1", 7002)), 0);
  EQUAL(c.bind(b, ip("127.0.0.1", 7002)), 0);
  EQUAL(c.listen(a), -EADDRINUSE);
}

void options_have_a_length_and_a_time() {
  Channel c;
  const uint32_t id = c.make();
  const uint8_t byte = 0x20;
  const int on = 1;
  EQUAL(c.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1), 0);
  EQUAL(c.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, sizeof(on)), -EINVAL);
  EQUAL(c.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), 0);
  EQUAL(c.option(c.make(RDMA_PS_UDP), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1),
        -EINVAL);
  EQUAL(c.option(id, RDMA_OPTION_ID, 9, &byte, 1), -ENOSYS);
  EQUAL(c.option(id, 9, RDMA_OPTION_ID_TOS, &byte, 1), -ENOSYS);
  EQUAL(c.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)), 0);
  EQUAL(c.bind(id, ip("127.0.0.1")), 0);
  EQUAL(c.listen(id), 0);
  EQUAL(c.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)), -EINVAL);
  EQUAL(c.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)), -EINVAL);
}

// bindv6only is off: [::] takes the port of 0.0.0.0 too, unless it says that it does not.
void an_address_may_be_of_its_family_only() {
  Channel c;
  const int on = 1, off = 0;
  const uint32_t both = c.make(), six = c.make();
  EQUAL(c.bind(both, ip("::", 7010)), 0);
  EQUAL(c.bind(c.make(), ip("0.0.0.0", 7010)), -EADDRNOTAVAIL);
  EQUAL(c.option(six, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)), 0);
  EQUAL(c.bind(six, ip("::", 7011)), 0);
  EQUAL(c.bind(c.make(), ip("0.0.0.0", 7011)), 0);
  EQUAL(c.option(six, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &off, sizeof(off)), 0);
  EQUAL(c.bind(c.make(), ip("127.0.0.1", 7011)), -EADDRNOTAVAIL);
}

void an_event_waits_where_poll_sees_it() {
  Channel c;
  rdma_ucm_event_resp e{};
  const uint32_t id = c.make();
  CU_ASSERT(!c.readable());
  EQUAL(c.event(e), -EAGAIN);
  EQUAL(c.resolve(id, ip("127.0.0.1", 7003)), 0);
  CU_ASSERT(c.readable());
  EQUAL(c.next(e), number(EventType::addr_resolved));
  EQUAL(e.uid, 7);
  EQUAL(e.id, id);
  CU_ASSERT(!c.readable());
  EQUAL(c.route(id, 0), -EINVAL);  // no time at all
  EQUAL(c.route(id), 0);
  EQUAL(c.route(id), -EINVAL);
  CU_ASSERT(c.readable());
  uint32_t reported = 0;
  EQUAL(c.destroy(id, &reported), 0);
  EQUAL(reported, 1);  // the route's was not read, and is gone
  CU_ASSERT(!c.readable());
  EQUAL(c.event(e), -EAGAIN);
}

void who_is_not_there_is_looked_for_until_the_time_is_up() {
  Channel c;
  rdma_ucm_event_resp e{};
  const uint32_t id = c.make();
  EQUAL(c.resolve(id, ip("10.9.0.7", 7003), 30), 0);
  EQUAL(c.next(e), -EAGAIN);
  const timespec pause{0, 40'000'000};
  ::nanosleep(&pause, nullptr);
  EQUAL(c.next(e), number(EventType::addr_error));
  EQUAL(static_cast<int>(e.status), -ETIMEDOUT);
  // Nobody has that network; the id is where it was, and may try again.
  EQUAL(c.resolve(id, ip("172.16.0.1", 7003)), -ENETUNREACH);
  EQUAL(c.next(e), -EAGAIN);
  // A link-local one without a scope is on the first link.
  EQUAL(c.resolve(c.make(), ip("fe80::ff:fe00:55", 7003)), 0);
  EQUAL(c.next(e), number(EventType::addr_resolved));
  EQUAL(c.resolve(id, ip("::1", 7003)), -EINVAL);  // of another family than before
}

void a_query_says_what_was_resolved() {
  Channel c;
  rdma_ucm_event_resp e{};
  const uint32_t id = c.make();
  EQUAL(c.resolve(id, ip("127.0.0.1", 7003)), 0);
  EQUAL(c.next(e), number(EventType::addr_resolved));
  rdma_ucm_query_route_resp r{};
  const auto at = reinterpret_cast<uint64_t>(&r);
  EQUAL(c.send(RDMA_USER_CM_CMD_QUERY_ROUTE, rdma_ucm_query{at, id, 0}, sizeof(r)), 0);
  EQUAL(r.num_paths, 0);
  EQUAL(r.node_guid, htobe64(guid_of(adapter().config.mac)));
  EQUAL(c.route(id), 0);
  EQUAL(c.send(RDMA_USER_CM_CMD_QUERY_ROUTE, rdma_ucm_query{at, id, 0}, sizeof(r)), 0);
  EQUAL(r.num_paths, 1);
  EQUAL(r.ib_route[0].mtu, 5);
  const Gid here{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  CU_ASSERT(std::memcmp(r.ib_route[0].sgid, here.data(), here.size()) == 0);
  EQUAL(ntohs(r.dst_addr.sin6_port), 7003);
  struct {
    uint32_t count, reserved;
    ib_path_rec_data path;
  } p{};
  const rdma_ucm_query path{reinterpret_cast<uint64_t>(&p), id, RDMA_USER_CM_QUERY_PATH};
  EQUAL(c.send(RDMA_USER_CM_CMD_QUERY, path, sizeof(p)), 0);
  EQUAL(p.count, 1);
  const auto* record = reinterpret_cast<const uint8_t*>(p.path.path_rec);
  EQUAL(record[54], 2 << 6 | 5);
  CU_ASSERT(std::memcmp(record + 8, here.data(), here.size()) == 0);
  EQUAL(c.send(RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{at, id, 3}, sizeof(r)), -ENOSYS);
}

int join(Channel& c, uint32_t id, const sockaddr_storage& group, uint32_t& number_of) {
  rdma_ucm_join_mcast cmd{};
  rdma_ucm_create_id_resp resp{};
  cmd.response = reinterpret_cast<uint64_t>(&resp);
  cmd.uid = 99;
  cmd.id = id;
  cmd.addr_size = static_cast<__u16>(rdmacm::address_bytes(group));
  std::memcpy(&cmd.addr, &group, sizeof(group));
  const int error = c.send(RDMA_USER_CM_CMD_JOIN_MCAST, cmd, sizeof(resp));
  number_of = resp.id;
  return error;
}

void a_group_is_joined_and_told() {
  Channel c;
  rdma_ucm_event_resp e{};
  uint32_t group = 0;
  const uint32_t stream = c.make(), id = c.make(RDMA_PS_UDP);
  EQUAL(c.bind(stream, ip("127.0.0.1")), 0);
  EQUAL(join(c, stream, ip("239.1.2.3"), group), -EINVAL);
  EQUAL(join(c, id, ip("239.1.2.3"), group), -EINVAL);  // bound to no adapter
  EQUAL(c.bind(id, ip("127.0.0.1")), 0);
  EQUAL(join(c, id, ip("0.0.0.0"), group), -EINVAL);
  EQUAL(join(c, id, ip("::"), group), -EINVAL);
  EQUAL(join(c, id, ip("ff0e::1:2"), group), -524);  // ENOTSUPP, which errno.h lacks
  EQUAL(join(c, id, ip("239.1.2.3"), group), 0);
  EQUAL(c.next(e), number(EventType::multicast_join));
  EQUAL(e.uid, 99);
  EQUAL(e.id, group);
  EQUAL(e.param.ud.qp_num, 0xffffff);
  EQUAL(e.param.ud.qkey, 0x01234567);
  EQUAL(e.param.ud.ah_attr.dlid, 0xc000);
  const Gid mgid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
  CU_ASSERT(std::memcmp(e.param.ud.ah_attr.grh.dgid, mgid.data(), mgid.size()) == 0);
  rdma_ucm_destroy_id cmd{};
  rdma_ucm_destroy_id_resp resp{};
  cmd.response = reinterpret_cast<uint64_t>(&resp);
  cmd.id = group;
  Channel other;
  EQUAL(other.send(RDMA_USER_CM_CMD_LEAVE_MCAST, cmd, sizeof(resp)), -EINVAL);
  EQUAL(c.send(RDMA_USER_CM_CMD_LEAVE_MCAST, cmd, sizeof(resp)), 0);
  EQUAL(resp.events_reported, 1);
  EQUAL(c.send(RDMA_USER_CM_CMD_LEAVE_MCAST, cmd, sizeof(resp)), -ENOENT);
}

void an_id_moves_with_its_events() {
  Channel from, to;
  rdma_ucm_event_resp e{};
  rdma_ucm_migrate_resp resp{};
  const uint32_t id = from.make();
  EQUAL(from.resolve(id, ip("127.0.0.1", 7003)), 0);
  const rdma_ucm_migrate_id cmd{reinterpret_cast<uint64_t>(&resp), id,
                                static_cast<__u32>(from.fd.get())};
  EQUAL(to.send(RDMA_USER_CM_CMD_MIGRATE_ID, cmd, sizeof(resp), sizeof(cmd), nullptr), -EINVAL);
  EQUAL(to.send(RDMA_USER_CM_CMD_MIGRATE_ID, rdma_ucm_migrate_id{cmd.response, id, 999'999},
                sizeof(resp)),
        -ENOENT);
  EQUAL(to.send(RDMA_USER_CM_CMD_MIGRATE_ID, cmd, sizeof(resp), sizeof(cmd), from.file.get()), 0);
  CU_ASSERT(!from.readable() && to.readable());
  EQUAL(from.destroy(id), -EINVAL);
  EQUAL(to.next(e), number(EventType::addr_resolved));
  EQUAL(to.destroy(id), 0);
}

// Command 24 of Linux 6.17, WRITE_CM_EVENT, by the bytes of its struct: librdmacm's
// rdma_write_cm_event() and, of type INTERNAL, rdma_resolve_addrinfo().
struct WrittenEvent {
  uint32_t id, reserved, event, status;
  uint64_t arg, rest[37];
};
static_assert(sizeof(WrittenEvent) == 16 + sizeof(rdma_ucm_ud_param));

void a_client_posts_events_to_its_ids() {
  constexpr uint32_t command = 24, user = 18, internal = 19;
  constexpr uint64_t arg = 0x1122334455667788;
  Channel c, other;
  rdma_ucm_event_resp e{};
  const uint32_t id = c.make(RDMA_PS_TCP, 77);
  EQUAL(c.send(command, WrittenEvent{id, 0, 9, 0, arg, {}}),
        -EINVAL);  // ESTABLISHED is not the client's to say
  EQUAL(c.send(command, WrittenEvent{id + 1, 0, user, 0, arg, {}}), -ENOENT);
  EQUAL(other.send(command, WrittenEvent{id, 0, user, 0, arg, {}}), -EINVAL);
  CU_ASSERT(!c.readable());
  EQUAL(c.send(command, WrittenEvent{id, 0, user, 5, arg, {}}), 0);
  EQUAL(c.send(command, WrittenEvent{id, 0, internal, 0, 16, {}}), 0);
  CU_ASSERT(c.readable());
  EQUAL(c.event(e), 0);
  EQUAL(e.event, user);
  EQUAL(e.uid, 77);
  EQUAL(e.id, id);
  EQUAL(e.status, 5);
  CU_ASSERT(std::memcmp(&e.param, &arg, sizeof(arg)) == 0);
  EQUAL(c.event(e), 0);
  EQUAL(e.event, internal);
  CU_ASSERT(!c.readable());
  uint32_t reported = 0;
  EQUAL(c.destroy(id, &reported), 0);
  EQUAL(reported, 2);
}

// The newest adapter has in its journal what the connection manager refuses.
uint64_t refusals_told() {
  (void)adapter(true);
  return rdmacm::first_adapter()->hca.config.journal->count(Journal::Kind::refused);
}

void a_refusal_is_told_once() {
  Channel c;
  const uint64_t before = refusals_told();
  EQUAL(c.bind(c.make(), ip("10.9.0.2")), -EADDRNOTAVAIL);
  EQUAL(refusals_told(), before + 1);
  EQUAL(c.resolve(c.make(), ip("172.16.0.1", 7003)), -ENETUNREACH);
  EQUAL(refusals_told(), before + 2);
  EQUAL(c.bind(c.make(), ip("127.0.0.1")), 0);
  EQUAL(refusals_told(), before + 2);
  const rdma_ucm_cmd_hdr unknown{10'000, 0, 0};
  EQUAL(c.raw(&unknown, sizeof unknown), -EINVAL);
  EQUAL(refusals_told(), before + 3);
}

constexpr kilim::test::Case cases[] = {
    {"ids are the lowest that are free", ids_are_the_lowest_that_are_free},
    {"an address is an adapter's, or any", an_address_is_an_adapters_or_any},
    {"a refusal is told once", a_refusal_is_told_once},
    {"a loopback address of nobody is any", a_loopback_address_of_nobody_is_any},
    {"an InfiniBand address names a port space", an_infiniband_address_names_a_port_space},
    {"a port is one id's", a_port_is_one_ids},
    {"options have a length and a time", options_have_a_length_and_a_time},
    {"an address may be of its family only", an_address_may_be_of_its_family_only},
    {"an event waits where poll sees it", an_event_waits_where_poll_sees_it},
    {"who is not there is looked for until the time is up",
     who_is_not_there_is_looked_for_until_the_time_is_up},
    {"a query says what was resolved", a_query_says_what_was_resolved},
    {"a group is joined, and told", a_group_is_joined_and_told},
    {"an id moves with its events", an_id_moves_with_its_events},
    {"a client posts events to its ids", a_client_posts_events_to_its_ids},
};

}  // namespace
}  // namespace rdmacm_ut
}  // namespace kilim::vhca::test

KILIM_TEST_MAIN(rdmacm) {
  using namespace kilim::vhca::test;
  return kilim::test::run_tables(
      "rdmacm", {rdmacm_ut::cases, connection_rdmacm_cases(), hostile_rdmacm_cases()}, argc, argv);
}
