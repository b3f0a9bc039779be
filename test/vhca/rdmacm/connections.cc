// SPDX-License-Identifier: BSD-3-Clause
// Connections over one adapter's own port: requests, answers, ends, and what is owed to whoever did
// not hear of one.
#include "rdmacm_cases.hh"
#include "rdmacm_fixture.hh"

namespace kilim::vhca::test {
namespace connections_ut {
namespace {

constexpr uint16_t port = 7100;

// A listener on one channel, an id with a route on the other.
struct Ends {
  explicit Ends(uint16_t space = RDMA_PS_TCP, uint32_t backlog = 0) : space_of_port(space) {
    listener = server.make(space, 11);
    EQUAL_FATAL(server.bind(listener, ip("127.0.0.1", port)), 0);
    EQUAL_FATAL(server.listen(listener, backlog), 0);
    id = make_client();
  }
  uint32_t make_client() {
    rdma_ucm_event_resp r{};
    const uint32_t made = client.make(space_of_port, 22);
    EQUAL_FATAL(client.resolve(made, ip("127.0.0.1", port)), 0);
    EQUAL_FATAL(client.next(r), number(EventType::addr_resolved));
    EQUAL_FATAL(client.route(made), 0);
    EQUAL_FATAL(client.next(r), number(EventType::route_resolved));
    return made;
  }
  // Up to the established connection.
  void establish() {
    EQUAL_FATAL(client.connect(id, "hello"), 0);
    EQUAL_FATAL(server.next(e), number(EventType::connect_request));
    peer = e.id;
    EQUAL_FATAL(server.accept(peer, 33), 0);
    EQUAL_FATAL(client.next(e), number(EventType::connect_response));
    EQUAL_FATAL(client.accept(id, 0, false), 0);
    EQUAL_FATAL(server.next(e), number(EventType::established));
  }

  uint16_t space_of_port;
  Channel server, client;
  uint32_t listener = 0, id = 0, peer = 0;
  rdma_ucm_event_resp e{};
};

ib_uverbs_qp_attr attr_of(Channel& c, uint32_t id, uint32_t state) {
  ib_uverbs_qp_attr a{};
  const rdma_ucm_init_qp_attr cmd{reinterpret_cast<uint64_t>(&a), id, state};
  EQUAL(c.send(RDMA_USER_CM_CMD_INIT_QP_ATTR, cmd, sizeof(a)), 0);
  return a;
}

void a_connection_is_made_and_ended() {
  Ends t;
  EQUAL(t.client.connect(t.id, "hello"), 0);
  EQUAL(t.client.connect(t.id, "hello"), -EINVAL);  // once
  EQUAL(t.server.next(t.e), number(EventType::connect_request));
  EQUAL(t.e.uid, 11);  // of the listener, with the new one's id
  CU_ASSERT(t.e.id != t.listener);
  t.peer = t.e.id;
  EQUAL(t.e.param.conn.private_data_len, 56);  // of the 92 bytes that a REQ has, less 36
  CU_ASSERT(std::memcmp(t.e.param.conn.private_data, "hello\0", 6) == 0);
  EQUAL(t.e.param.conn.qp_num, 0x1234);
  EQUAL(t.e.param.conn.responder_resources, 4);
  EQUAL(t.server.accept(t.peer, 33), 0);
  EQUAL(t.client.next(t.e), number(EventType::connect_response));
  EQUAL(t.e.param.conn.private_data_len, 196);
  CU_ASSERT(std::memcmp(t.e.param.conn.private_data, "welcome\0", 8) == 0);
  EQUAL(t.e.param.conn.qp_num, 0x4321);
  EQUAL(t.client.accept(t.id, 0, false), 0);
  EQUAL(t.server.next(t.e), number(EventType::established));
  EQUAL(t.e.uid, 33);
  EQUAL(t.e.param.conn.private_data_len, 0);  // cma.c, cma_ib_handler(): nothing of the RTU's
  EQUAL(t.server.send(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{t.listener}), 0);
  EQUAL(t.client.send(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{t.id}), 0);
  EQUAL(t.server.next(t.e), number(EventType::disconnected));
  EQUAL(t.server.send(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{t.peer}), 0);
  EQUAL(t.client.next(t.e), number(EventType::disconnected));
  EQUAL(t.server.next(t.e), -EAGAIN);  // told once
}

// By an event of its queue pair: the RTU is late, or lost.
void an_early_message_establishes() {
  Ends t;
  EQUAL(t.client.connect(t.id, "hello"), 0);
  EQUAL(t.server.next(t.e), number(EventType::connect_request));
  const rdma_ucm_notify established{t.e.id, 4};
  EQUAL(t.server.send(RDMA_USER_CM_CMD_NOTIFY, established), -EINVAL);
  EQUAL(t.server.accept(t.e.id, 33), 0);
  EQUAL(t.server.send(RDMA_USER_CM_CMD_NOTIFY, established), 0);
  EQUAL(t.server.next(t.e), number(EventType::established));
  EQUAL(t.server.send(RDMA_USER_CM_CMD_NOTIFY, established), -EISCONN);
  EQUAL(t.client.next(t.e), number(EventType::connect_response));
  EQUAL(t.client.accept(t.id, 0, false), 0);
  EQUAL(t.server.next(t.e), -EAGAIN);  // the RTU tells nothing new
}

void a_queue_pair_is_told_its_peer() {
  Ends t;
  ib_uverbs_qp_attr before = attr_of(t.client, t.id, 1);
  EQUAL(before.qp_attr_mask, 1 | 1 << 3 | 1 << 4 | 1 << 5);
  EQUAL(before.qp_access_flags, 0);
  t.establish();
  const ib_uverbs_qp_attr init = attr_of(t.client, t.id, 1), rtr = attr_of(t.client, t.id, 2),
                          rts = attr_of(t.client, t.id, 3), theirs = attr_of(t.server, t.peer, 3);
  EQUAL(init.qp_access_flags, access::remote_write | access::remote_read | access::remote_atomic);
  EQUAL(rtr.dest_qp_num, 0x4321);
  EQUAL(rtr.path_mtu, 5);
  EQUAL(rtr.ah_attr.is_global, 1);
  EQUAL(rtr.ah_attr.grh.sgid_index, 1);
  EQUAL(rtr.max_dest_rd_atomic, 4);
  EQUAL(rtr.rq_psn, theirs.sq_psn);
  EQUAL(rts.retry_cnt, 7);
  const rdma_ucm_init_qp_attr cmd{0, t.id, 7};
  EQUAL(t.client.send(RDMA_USER_CM_CMD_INIT_QP_ATTR, cmd, sizeof(rtr)), -EINVAL);
}

void a_refusal_has_a_reason() {
  Ends t;
  EQUAL(t.client.connect(t.id), 0);
  EQUAL(t.server.next(t.e), number(EventType::connect_request));
  rdma_ucm_reject cmd{};
  cmd.id = t.e.id;
  cmd.reason = 3;
  EQUAL(t.server.send(RDMA_USER_CM_CMD_REJECT, cmd), -EINVAL);
  cmd.reason = 0;
  cmd.private_data_len = 2;
  cmd.private_data[0] = 'n';
  cmd.private_data[1] = 'o';
  EQUAL(t.server.send(RDMA_USER_CM_CMD_REJECT, cmd), 0);
  EQUAL(t.client.next(t.e), number(EventType::rejected));
  EQUAL(t.e.status, 28);
  CU_ASSERT(std::memcmp(t.e.param.conn.private_data, "no", 2) == 0);
}

void nobody_listens_is_a_refusal_too() {
  Ends t;
  EQUAL(t.server.destroy(t.listener), 0);
  EQUAL(t.client.connect(t.id), 0);
  EQUAL(t.client.next(t.e), number(EventType::rejected));
  EQUAL(t.e.status, 8);
}

void a_listener_has_as_many_unread_requests_as_it_said() {
  Ends t(RDMA_PS_TCP, 2);
  const uint32_t ids[] = {t.id, t.make_client(), t.make_client(), t.make_client()};
  for (uint32_t id : ids) EQUAL(t.client.connect(id, "", 0x2000 + id), 0);  // a queue pair each
  int requests = 0;
  while (t.server.next(t.e) == number(EventType::connect_request)) requests++;
  EQUAL(requests, 2);
}

void unread_requests_go_with_their_listener() {
  Ends t;
  EQUAL(t.client.connect(t.id), 0);
  turns();
  CU_ASSERT(t.server.readable());
  EQUAL(t.server.destroy(t.listener), 0);
  CU_ASSERT(!t.server.readable());
  EQUAL(t.client.next(t.e), number(EventType::rejected));
}

void who_closes_the_file_says_good_bye() {
  Ends t;
  t.establish();
  t.server.file.reset();
  EQUAL(t.client.next(t.e), number(EventType::disconnected));
}

void a_datagram_peer_is_resolved() {
  Ends t(RDMA_PS_UDP);
  EQUAL(t.client.connect(t.id, "who"), 0);
  EQUAL(t.server.next(t.e), number(EventType::connect_request));
  EQUAL(t.e.param.ud.private_data_len, 180);
  CU_ASSERT(std::memcmp(t.e.param.ud.private_data, "who\0", 4) == 0);
  EQUAL(t.server.accept(t.e.id, 33), 0);
  EQUAL(t.client.next(t.e), number(EventType::established));
  EQUAL(t.e.param.ud.qp_num, 0x4321);
  EQUAL(t.e.param.ud.qkey, 0x01234567);
  EQUAL(t.e.param.ud.ah_attr.grh.sgid_index, 1);
}

void private_data_that_does_not_fit_is_refused() {
  Ends t;
  const std::string much(57, 'x');
  EQUAL(t.client.connect(t.id, much.c_str()), -EINVAL);
  EQUAL(t.client.connect(t.id, much.c_str() + 1), 0);  // and the id is where it was
}

constexpr kilim::test::Case cases[] = {
    {"an early message establishes", an_early_message_establishes},
    {"a connection is made and ended", a_connection_is_made_and_ended},
    {"a queue pair is told its peer", a_queue_pair_is_told_its_peer},
    {"a refusal has a reason", a_refusal_has_a_reason},
    {"nobody listens is a refusal too", nobody_listens_is_a_refusal_too},
    {"a listener has as many unread requests as it said",
     a_listener_has_as_many_unread_requests_as_it_said},
    {"unread requests go with their listener", unread_requests_go_with_their_listener},
    {"who closes the file says good-bye", who_closes_the_file_says_good_bye},
    {"a datagram's peer is resolved", a_datagram_peer_is_resolved},
    {"private data that does not fit is refused", private_data_that_does_not_fit_is_refused},
};

}  // namespace
}  // namespace connections_ut

std::span<const kilim::test::Case> connection_rdmacm_cases() {
  return connections_ut::cases;
}

}  // namespace kilim::vhca::test
