// SPDX-License-Identifier: BSD-3-Clause
// Tests write, read, send and atomic over a reliable connection, in perftest's table: a server
// waits for one client and says what it found, a client measures, alone is both in one process.
#include <bit>
#include <cstdio>
#include <memory>

#include "perf/command.hh"
#include "perf/two_sided/by_address.hh"
#include "perf/two_sided/side.hh"
#include "perf/two_sided/table.hh"
#include "perf/two_sided/tcp.hh"
#include "perf/two_sided/traffic.hh"

namespace kilim::perf {
namespace {

int refuse(const std::string& why) {
  std::fprintf(stderr, "kilim-perf: %s\n", why.c_str());
  return 1;
}
int refuse(const char* what, const Error& e) {
  return refuse(std::string(what) + ": " + e.what);
}

Agreement agreement_of(const Options& o, Work work) {
  Agreement a{.work = work,
              .check = o.check,
              .queues = static_cast<uint16_t>(o.queues),
              .depth = o.depth,
              .low = o.all_sizes ? 2 : o.size,
              .high = o.all_sizes ? most_bytes : o.size};
  if (work == Work::atomic) a.low = a.high = atomic_bytes;
  if (a.check) a.depth = std::min(a.depth, slots_of(a).count);
  return a;
}

// The sizes of the rounds, one after the other; false: `each` gave up.
template <typename Each>
bool for_sizes(const Agreement& a, Each each) {
  for (uint32_t bytes = a.low;; bytes *= 2) {
    if (!each(bytes)) return false;
    if (bytes > a.high / 2) return true;
  }
}

RoundPlan plan_of(const Options& o, const Side& side, uint32_t bytes) {
  return {.bytes = bytes,
          .messages = o.iterations,
          .seconds = o.seconds,
          .list = std::min(o.list, side.agreement().depth)};
}

// ---- alone

int run_alone(const Options& o, Work work) {
  auto device = open_device(o);
  if (!device) return refuse("the device", device.error());
  auto made = Side::create(*device, o, agreement_of(o, work));
  if (!made) return refuse("the queues", made.error());
  Side& side = **made;
  auto self = side.hello();
  if (!self) return refuse("the device", self.error());
  if (Status s = side.connect(*self); !s) return refuse("the connection", s.error());
  print_head(o);
  const queue::Remote target{self->address, self->key};
  const bool good = for_sizes(side.agreement(), [&](uint32_t bytes) {
    side.begin_round(bytes);
    const RoundEnd end = run_round(side, target, plan_of(o, side, bytes));
    side.check_arrived(end.messages);
    if (side.failure().empty()) print_round(o, bytes, end, side.inlined());
    return side.failure().empty();
  });
  return good ? 0 : refuse(side.failure());
}

// ---- client

// A message of this kind, or the sentence of the refusal that came instead.
Result<std::vector<uint8_t>> expect(Tcp& tcp, Kind kind, const Patience& patience,
                                    std::string& why) {
  Result<Message> m = tcp.receive(patience);
  if (!m) {
    why = m.error().what;
    return m.error();
  }
  if (m->kind == kind) return m->payload;
  why = m->kind == Kind::refusal ? "the other side says: " + decode_text(m->payload)
                                 : "the other side sent what nobody expects now";
  return Error{EPROTO, ""};
}

struct ClientRun {
  const Options& options;
  Side& side;
  Tcp& tcp;
  queue::Remote target;
  std::string why;

  bool round(uint32_t bytes) {
    const Patience patience{.idle = side.idle()};
    Status s = tcp.send(Kind::begin, encode_bytes(bytes), patience);
    side.begin_round(bytes);
    if (s && !expect(tcp, Kind::ready, patience, why)) return false;
    const RoundEnd end = run_round(side, target, plan_of(options, side, bytes));
    if (side.failure().empty()) s = tcp.send(Kind::end, encode(end), patience);
    if (!side.failure().empty() || !s) {
      why = s ? side.failure() : s.error().what;
      return false;
    }
    if (!expect(tcp, Kind::good, {std::chrono::seconds{60}, side.idle()}, why)) return false;
    print_round(options, bytes, end, side.inlined());
    return true;
  }
};

int run_client(const Options& o, Work work) {
  auto device = open_device(o);
  if (!device) return refuse("the device", device.error());
  auto made = Side::create(*device, o, agreement_of(o, work));
  if (!made) return refuse("the queues", made.error());
  Side& side = **made;
  auto self = side.hello();
  if (!self) return refuse("the device", self.error());
  const Patience patience{.idle = side.idle()};
  auto tcp = Tcp::connect(o.host, static_cast<uint16_t>(o.port), patience);
  if (!tcp) return refuse("the server", tcp.error());
  std::string why;
  if (Status s = tcp->send(Kind::hello, encode(*self), patience); !s)
    return refuse("the server", s.error());
  const auto answer = expect(*tcp, Kind::hello, patience, why);
  if (!answer) return refuse(why);
  const auto peer = decode_hello(*answer);
  if (!peer) return refuse("the server", peer.error());
  if (peer->agreement != side.agreement()) return refuse("the server does another test");
  Links links;
  if (Status s = o.rdma_cm ? links.connect(side, o.host, static_cast<uint16_t>(o.port))
                           : side.connect(*peer);
      !s)
    return refuse("the connection", s.error());
  print_head(o);
  ClientRun run{o, side, *tcp, queue::Remote{peer->address, peer->key}, {}};
  const bool good = for_sizes(side.agreement(), [&](uint32_t b) { return run.round(b); });
  if (!good) return refuse(run.why);
  (void)tcp->send(Kind::bye, {}, patience);
  return 0;
}

// ---- server

// Also tells the client.
int refuse_client(Tcp& tcp, const std::string& why) {
  const std::vector<uint8_t> text(why.begin(), why.end());
  const Patience patience{.limit = std::chrono::seconds{2}};
  if (tcp.send(Kind::refusal, text, patience)) tcp.linger(patience);
  return refuse(why);
}

struct ServerRun {
  const Options& options;
  Side& side;
  Tcp& tcp;
  uint32_t bytes = 0;  // of the round under way, 0: none

  // One message of the client's is answered; empty: all is well.
  std::string answer(const Message& m) {
    const Patience patience{.idle = side.idle()};
    Status s = Done{};
    if (m.kind == Kind::begin && bytes == 0) {
      const auto size = decode_begin(m.payload, side.agreement());
      if (!size) return size.error().what;
      bytes = *size;
      side.begin_round(bytes);
      s = tcp.send(Kind::ready, {}, patience);
    } else if (m.kind == Kind::end && bytes != 0) {
      const auto end = decode_end(m.payload, side.agreement());
      if (!end) return end.error().what;
      side.check_arrived(end->messages);
      if (!side.failure().empty()) return side.failure();
      s = tcp.send(Kind::good, {}, patience);
      print_round(options, bytes, *end, side.inlined());
      bytes = 0;
    } else {
      return m.kind == Kind::refusal ? decode_text(m.payload)
                                     : "the client sent what nobody expects now";
    }
    return s ? "" : s.error().what;
  }

  int run() {
    while (true) {
      // A round lasts as long as the client wants.
      Result<Message> m = tcp.receive({std::chrono::milliseconds{0}, side.idle()});
      if (!m) return refuse("the client", m.error());
      if (m->kind == Kind::bye && bytes == 0) return 0;
      if (const std::string why = answer(*m); !why.empty()) return refuse_client(tcp, why);
    }
  }
};

int serve_client(const Options& o, Work work, attach::Attachment& device, Tcp& tcp) {
  const Patience patience;
  Result<Message> first = tcp.receive(patience);
  if (!first) return refuse_client(tcp, first.error().what);
  if (first->kind != Kind::hello) return refuse_client(tcp, "the client does not say hello first");
  const auto peer = decode_hello(first->payload);
  if (!peer) return refuse_client(tcp, peer.error().what);
  if (peer->agreement.work != work)
    return refuse_client(tcp, "this server runs the test " + o.test + ", the client another");
  auto made = Side::create(device, o, peer->agreement);
  if (!made) return refuse_client(tcp, made.error().what);
  Side& side = **made;
  auto self = side.hello();
  if (!self) return refuse_client(tcp, self.error().what);
  Links links;
  Status s = o.rdma_cm ? links.listen(side, static_cast<uint16_t>(o.port)) : side.connect(*peer);
  if (!s) return refuse_client(tcp, s.error().what);
  s = tcp.send(Kind::hello, encode(*self), patience);
  if (!s) return refuse("the client", s.error());
  if (o.rdma_cm) s = links.accept(side);
  if (!s) return refuse_client(tcp, s.error().what);
  print_head(o);
  return ServerRun{o, side, tcp}.run();
}

int run_server(const Options& o, Work work) {
  auto device = open_device(o);
  if (!device) return refuse("the device", device.error());
  std::fprintf(stderr,
               "kilim-perf: waiting for a client on TCP port %u (--alone needs none; a host "
               "behind the test makes this the client)\n",
               o.port);
  Idle idle;
  if (device->poller.fn != nullptr)
    idle = {[](void* d) { static_cast<device::Device*>(d)->progress(); }, device->device.get()};
  auto tcp = Tcp::accept_one(static_cast<uint16_t>(o.port), idle);
  if (!tcp) return refuse("the server", tcp.error());
  return serve_client(o, work, *device, *tcp);
}

template <Work W>
int run(const Options& o) {
  if (const char* why = why_not(agreement_of(o, W))) return refuse(why);
  if (o.alone) return run_alone(o, W);
  return o.host.empty() ? run_server(o, W) : run_client(o, W);
}

}  // namespace

const Command write_test = {"write", "RDMA WRITE: server, client or alone", run<Work::write>, true};
const Command read_test = {"read", "RDMA READ, likewise", run<Work::read>, true};
const Command send_test = {"send", "SEND to posted receives, likewise", run<Work::send>, true};
const Command atomic_test = {"atomic", "fetch and add of 8 bytes, likewise", run<Work::atomic>,
                             true};

}  // namespace kilim::perf
