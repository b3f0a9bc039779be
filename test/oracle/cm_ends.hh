// SPDX-License-Identifier: BSD-3-Clause
// Two ends of librdmacm in one process, on one port of whatever device is there, and what each call
// and event said, as words: the same program asks the kernel and the virtual adapter, and the words
// are compared. One thread. Judges nothing; knows nothing of Kilim.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rdma/rdma_cma.h>

namespace kilim::oracle::cm {

// What a scenario has said so far, in its order.
class Told {
 public:
  void say(const std::string& words);
  // A call of librdmacm: `name=0`, or the error's name.
  bool call(const char* name, int result);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The addresses of a run: the port's own; one that no route leads to; a neighbour who is silent.
struct Addresses {
  std::string own, unreachable, silent;
};
extern Addresses addresses;

// Of IPv4 or IPv6, as a literal says.
struct Address {
  explicit Address(const std::string& text, uint16_t port = 0);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  sockaddr_storage storage{};
};

// A port number, or a queue pair's, that no other scenario of the run has had.
uint16_t fresh_port();
// With a queue pair's number that is nobody's: no data moves here.
rdma_conn_param param_of(std::string_view data = {});

// An event channel and the ids made on it. What is left is destroyed with it.
class End {
 public:
  End();
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  rdma_cm_id* make(rdma_port_space = RDMA_PS_TCP);
  // Ids that others made, or that went elsewhere.
  void adopt(rdma_cm_id* id) { ids_.push_back(id); }
  void disown(rdma_cm_id*);
  int destroy(rdma_cm_id*);
  // The next event within the time, acknowledged: `NAME/status/length:data`; or `nothing`. Its id
  // is in `last` then.
  std::string wait(int milliseconds = patience_ms);

  static constexpr int patience_ms = 20'000;  // an emulated kernel is slow
  static constexpr int quiet_ms = 700;        // after which nothing comes any more
  rdma_event_channel* channel;
  rdma_cm_id* last = nullptr;

 private:
  std::vector<rdma_cm_id*> ids_;
};

// A listener on one channel, and an id with a route to it on another.
struct Pair {
  explicit Pair(Told&, rdma_port_space = RDMA_PS_TCP, int backlog = 8);
  // One more client, with a route.
  rdma_cm_id* make_client();
  int connect(rdma_cm_id*, std::string_view data = "hello");
  // Connects `id`, and has `request` of it.
  void ask();
  // Up to the established connection.
  void establish();
  // The next events, named by whose they are.
  void server_hears(int milliseconds = End::patience_ms);
  void client_hears(int milliseconds = End::patience_ms);

  Told& told;
  rdma_port_space space;
  uint16_t port = fresh_port();
  End server, client;
  rdma_cm_id *listener = nullptr, *id = nullptr, *request = nullptr;
};

struct Scenario {
  const char* name;
  void (*run)(Told&);
};
std::span<const Scenario> refusals();    // cm_refusals.cc: what a peer says no to
std::span<const Scenario> states();      // cm_states.cc: calls out of order
std::span<const Scenario> addressing();  // cm_addressing.cc: binding, resolving, options
std::span<const Scenario> datagrams();   // cm_datagrams.cc: SIDR and groups

}  // namespace kilim::oracle::cm
