// SPDX-License-Identifier: BSD-3-Clause
// drivers/connect over a virtual device: Kilim's queues connected by address, refusals with their
// reasons, and what is left when one side parts. No thread but the test's own.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "case_tables.hh"
#include "connect/connection.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "mlx5_fixture.hh"
#include "ut.hh"

namespace connection_ut {
namespace {

using namespace kilim;
using connect::Connection;
using connect::Listener;
using connect::Request;
using State = Connection::State;
using test::VirtualDevice;

std::span<const std::byte> bytes(const char* text) {
  return std::as_bytes(std::span{text, std::strlen(text)});
}
bool begins_with(std::span<const std::byte> data, const char* text) {
  return data.size() >= std::strlen(text) && std::memcmp(data.data(), text, std::strlen(text)) == 0;
}

// The process's one device with 127.0.0.1 and ::1: a second one would have the same addresses.
VirtualDevice& loopback() {
  static VirtualDevice v{test::config("conn")};
  return v;
}

// Two queue pairs of it.
struct Ends {
  VirtualDevice& v = loopback();
  device::OwnedCq cq;
  device::OwnedQp a, b;

  Ends() {
    if (v.device == nullptr) return;
    auto made = device::create_cq(*v.device, 64);
    if (!made) return;
    cq = *std::move(made);
    for (device::OwnedQp* qp : {&a, &b}) {
      device::RcRequest request;
      request.queues = {
          .send_cq = cq->handle, .recv_cq = cq->handle, .send_wqebbs = 64, .recv_wrs = 16};
      request.access = mr::Access::all;
      if (auto q = device::create_rc(*v.device, request)) *qp = *std::move(q);
    }
  }
  [[nodiscard]] bool ok() const { return a && b; }
};

// Until the listener has a request, or the connection an end; none after 2000 turns.
std::optional<Request> wait_for_request(Listener& listener, Connection& from) {
  for (int turn = 0; turn < 2000; turn++) {
    if (!from.poll()) return std::nullopt;
    auto request = listener.poll();
    if (!request) return std::nullopt;
    if (request->has_value()) return std::move(**request);
  }
  return std::nullopt;
}

Result<State> wait_until(Connection& one, State wanted) {
  Result<State> state = State::connecting;
  for (int turn = 0; turn < 2000; turn++) {
    state = one.poll();
    if (!state || *state == wanted) return state;
  }
  return state;
}

// WRITEs eight bytes from one queue pair's side to the other's.
bool writes(Ends& e, device::OwnedQp& from) {
  alignas(64) static std::array<std::byte, 4096> memory;
  auto region = mr::Mr::create(e.v.device->registrar(), memory, mr::Access::all, 4096);
  if (!region) return false;
  memory.fill(std::byte{7});
  std::fill_n(memory.begin() + 2048, 8, std::byte{0});
  std::vector<uint64_t> ids(from->sq.wqebb_count);
  queue::Sq sq(from->sq, ids);
  queue::Cq cq(e.cq->geometry);
  queue::WqeCursor c{sq};
  const queue::Remote to{region->region().iova + 2048, region->region().rkey};
  const queue::Sge piece{region->region().iova, 8, region->region().lkey};
  if (!queue::rdma_write(c, to, piece, {.flags = queue::WrFlags::signalled})) return false;
  c.commit();
  queue::Completion done[1];
  for (int turn = 0; turn < 2000; turn++) {
    if (cq.poll(done) == 1) return done[0].ok() && memory[2055] == std::byte{7};
    e.v.device->progress();
  }
  return false;
}

// Both queue pairs connected by 127.0.0.1, with words both ways.
void connects_by(const char* host) {
  Ends e;
  CU_ASSERT_TRUE_FATAL(e.ok());
  auto listener = Listener::create(*e.v.device, {"", 0});
  CU_ASSERT_TRUE_FATAL(listener.ok());
  CU_ASSERT_TRUE(listener->port() != 0);
  auto active = Connection::start(*e.v.device, e.a.info(), {host, listener->port()}, bytes("ask"));
  CU_ASSERT_TRUE_FATAL(active.ok());
  auto request = wait_for_request(*listener, *active);
  CU_ASSERT_TRUE_FATAL(request.has_value());
  CU_ASSERT_TRUE(begins_with(request->data(), "ask"));
  auto passive = request->accept(*e.v.device, e.b.info(), bytes("answer"));
  CU_ASSERT_TRUE_FATAL(passive.ok());
  EQUAL(request->accept(*e.v.device, e.b.info()).error().code, EINVAL);
  Result<State> state = wait_until(*active, State::connected);
  CU_ASSERT_TRUE_FATAL(state.ok());
  EQUAL_FATAL(*state, State::connected);
  CU_ASSERT_TRUE(begins_with(active->data(), "answer"));
  state = wait_until(*passive, State::connected);
  CU_ASSERT_TRUE_FATAL(state.ok());
  EQUAL_FATAL(*state, State::connected);
  CU_ASSERT_TRUE(writes(e, e.a));
  CU_ASSERT_TRUE(active->disconnect().ok());
  state = wait_until(*passive, State::disconnected);
  CU_ASSERT_TRUE(state.ok() && *state == State::disconnected);
}

void connects_by_address() {
  connects_by("127.0.0.1");
  connects_by("::1");
}

// After an error the way of the handshake is gone again: reset() knows its numbers.
void resets_by_the_route() {
  Ends e;
  CU_ASSERT_TRUE_FATAL(e.ok());
  auto listener = Listener::create(*e.v.device, {"127.0.0.1", 0});
  CU_ASSERT_TRUE_FATAL(listener.ok());
  auto active = Connection::start(*e.v.device, e.a.info(), {"127.0.0.1", listener->port()});
  CU_ASSERT_TRUE_FATAL(active.ok());
  auto request = wait_for_request(*listener, *active);
  CU_ASSERT_TRUE_FATAL(request.has_value());
  auto passive = request->accept(*e.v.device, e.b.info());
  CU_ASSERT_TRUE_FATAL(passive.ok());
  CU_ASSERT_TRUE_FATAL(wait_until(*active, State::connected).ok());
  for (const device::OwnedQp* qp : {&e.a, &e.b}) {
    CU_ASSERT_TRUE(e.v.device->fail((*qp)->handle).ok());
    CU_ASSERT_TRUE(e.v.device->reset((*qp)->handle).ok());
  }
  CU_ASSERT_TRUE(writes(e, e.b));
}

Error end_of(Result<Connection> c) {
  if (!c) return c.error();
  const Result<State> state = wait_until(*c, State::disconnected);
  return state ? Error{} : state.error();
}

void refusals() {
  Ends e;
  CU_ASSERT_TRUE_FATAL(e.ok());
  device::Device& d = *e.v.device;
  const std::array<std::byte, 200> much{};
  EQUAL(Connection::start(d, e.a.info(), {"", 1}).error().code, EINVAL);
  EQUAL(Connection::start(d, e.a.info(), {"no.such.host.invalid", 1}).error().code, EINVAL);
  EQUAL(Connection::start(d, e.a.info(), {"127.0.0.1", 1}, std::span{much}.first(57)).error().code,
        EINVAL);
  EQUAL(end_of(Connection::start(d, e.a.info(), {"127.0.0.1", 4711})).code, ECONNREFUSED);
  EQUAL(end_of(Connection::start(d, e.a.info(), {"10.99.0.1", 4711})).code, ENETUNREACH);
  CU_ASSERT_FALSE(Listener::create(d, {"10.99.0.1", 0}).ok());
  auto listener = Listener::create(d, {"127.0.0.1", 0});
  CU_ASSERT_TRUE_FATAL(listener.ok());
  EQUAL(Listener::create(d, {"127.0.0.1", listener->port()}).error().code, EADDRINUSE);
  auto active = Connection::start(d, e.a.info(), {"127.0.0.1", listener->port()});
  CU_ASSERT_TRUE_FATAL(active.ok());
  auto request = wait_for_request(*listener, *active);
  CU_ASSERT_TRUE_FATAL(request.has_value());
  EQUAL(request->accept(d, e.b.info(), std::span{much}.first(197)).error().code, EINVAL);
  EQUAL(request->reject(std::span{much}.first(149)).error().code, EINVAL);
  CU_ASSERT_TRUE(request->reject(bytes("no")).ok());
  EQUAL(end_of(*std::move(active)).code, ECONNREFUSED);
}

// Requests that nobody answers are rejected when they are dropped, and a peer that goes is noticed.
void ends() {
  Ends e;
  CU_ASSERT_TRUE_FATAL(e.ok());
  device::Device& d = *e.v.device;
  auto listener = Listener::create(d, {"127.0.0.1", 0});
  CU_ASSERT_TRUE_FATAL(listener.ok());
  const connect::CmAddress to{"127.0.0.1", listener->port()};
  auto active = Connection::start(d, e.a.info(), to);
  CU_ASSERT_TRUE_FATAL(active.ok());
  CU_ASSERT_TRUE(wait_for_request(*listener, *active).has_value());
  EQUAL(end_of(*std::move(active)).code, ECONNREFUSED);
  std::optional<Connection> other;
  if (auto again = Connection::start(d, e.a.info(), to)) other.emplace(*std::move(again));
  CU_ASSERT_TRUE_FATAL(other.has_value());
  auto request = wait_for_request(*listener, *other);
  CU_ASSERT_TRUE_FATAL(request.has_value());
  auto passive = request->accept(d, e.b.info());
  CU_ASSERT_TRUE_FATAL(passive.ok());
  CU_ASSERT_TRUE_FATAL(wait_until(*other, State::connected).ok());
  other.reset();
  const Result<State> state = wait_until(*passive, State::disconnected);
  CU_ASSERT_TRUE(state.ok() && *state == State::disconnected);
}

// A device that the address does not belong to makes no connection with it.
void another_device() {
  Ends one;
  DeviceSpec far = test::config("conn_two");
  far.wires = {"cable:conn"};
  far.ips = {"10.44.0.1/24"};
  VirtualDevice two{far};
  CU_ASSERT_TRUE_FATAL(one.ok());
  CU_ASSERT_TRUE_FATAL(two.device != nullptr);
  EQUAL(end_of(Connection::start(*one.v.device, one.a.info(), {"10.44.0.1", 1})).code, ENODEV);
}

const kilim::test::Case cases[] = {
    {"two queue pairs meet by an address and part", connects_by_address},
    {"a failed queue pair goes the way of its handshake again", resets_by_the_route},
    {"refusals have their reasons", refusals},
    {"who drops a request rejects it, who goes is missed", ends},
    {"an address of another device is refused", another_device},
};

}  // namespace
}  // namespace connection_ut

KILIM_TEST_MAIN(connection) {
  return kilim::test::run_tables("mlx5/connection", {connection_ut::cases}, argc, argv);
}
