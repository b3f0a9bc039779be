// SPDX-License-Identifier: BSD-3-Clause
// A plain verbs program for tests of what goes wrong under a program: the adapter dies, or the
// program is killed. Knows nothing of Kilim. `hostile_client MODE`: exits 0 when what the mode says
// happened, else says on stderr what did not.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <infiniband/verbs.h>
#include <unistd.h>

#include "rc_pair_fixture.hh"

using kilim::test::open_by_name;
using kilim::test::RcPair;

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "hostile_client: %s (%s)\n", what, std::strerror(errno));
  std::exit(1);
}

ibv_context* open_device() {
  ibv_context* context = open_by_name("vhca0");
  if (context == nullptr) fail("the device does not open");
  return context;
}

// Posts one write and sleeps until its completion's event.
ibv_wc_status write_and_wait(RcPair& pair) {
  if (ibv_req_notify_cq(pair.cq(), 0) != 0) fail("the queue cannot be armed");
  if (pair.post_write(64) != 0) fail("a write cannot be posted");
  ibv_wc wc{};
  for (;;) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(pair.channel(), &cq, &context) != 0) fail("no completion event");
    ibv_ack_cq_events(cq, 1);
    if (ibv_req_notify_cq(pair.cq(), 0) != 0) fail("the queue cannot be armed again");
    if (ibv_poll_cq(pair.cq(), 1, &wc) == 1) return wc.status;
  }
}

void refused(const char* what, bool made, int code) {
  if (!made && errno == code) return;
  std::fprintf(stderr, "hostile_client: %s of a dead adapter: %s\n", what,
               made ? "made" : std::strerror(errno));
  std::exit(1);
}

// The adapter dies while one thread waits for completions and one for asynchronous events.
void fatal() {
  ibv_context* context = open_device();
  ibv_pd* pd = ibv_alloc_pd(context);
  std::atomic<int> event{-1};
  std::thread waiter([&] {
    ibv_async_event e{};
    if (ibv_get_async_event(context, &e) != 0) fail("no asynchronous event");
    event = e.event_type;
    ibv_ack_async_event(&e);
  });
  {
    RcPair pair(context, true);
    if (!pair.ok()) fail("the queues cannot be connected");
    int good = 0;
    ibv_wc_status status = IBV_WC_SUCCESS;
    for (; (status = write_and_wait(pair)) == IBV_WC_SUCCESS; good++) {
    }
    if (status != IBV_WC_WR_FLUSH_ERR) fail("not a flush");
    waiter.join();
    if (event != IBV_EVENT_DEVICE_FATAL) fail("another event");
    if (write_and_wait(pair) != IBV_WC_WR_FLUSH_ERR) fail("a later write is not flushed");
    static char memory[4096];
    refused("a region", ibv_reg_mr(pd, memory, sizeof(memory), 0) != nullptr, EIO);
    refused("a domain", ibv_alloc_pd(context) != nullptr, EIO);
    refused("a completion queue", ibv_create_cq(context, 4, nullptr, nullptr, 0) != nullptr, EIO);
    refused("an open", open_by_name("vhca0") != nullptr, EAGAIN);
    std::printf("%d writes before the end\n", good);
  }
  if (ibv_dealloc_pd(pd) != 0) fail("a domain of a dead adapter stays");
  if (ibv_close_device(context) != 0) fail("the device does not close");
}

// What the seed decides.
void numbers() {
  ibv_context* context = open_device();
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  static char memory[4096];
  ibv_mr* mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {4, 4, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(pd, &attr);
  if (mr == nullptr || qp == nullptr) fail("the objects cannot be made");
  union ibv_gid gid;
  if (ibv_query_gid(context, 1, 0, &gid) != 0) fail("no address");
  const uint8_t* g = gid.raw;
  std::printf("key %x queue %x address %02x:%02x:%02x:%02x:%02x:%02x\n", mr->lkey, qp->qp_num,
              g[8] ^ 2, g[9], g[10], g[13], g[14], g[15]);
}

void say(const char* phase) {
  std::printf("%s\n", phase);
  std::fflush(stdout);
}

// Says where it is and stays there until it is killed.
[[noreturn]] void stay(const char* phase) {
  say(phase);
  for (;;) ::pause();
}

void stay_before() {
  stay("before");
}
void stay_open() {
  open_device();
  stay("open");
}
void stay_with_objects() {
  RcPair pair(open_device(), true);
  if (!pair.ok()) fail("the queues cannot be connected");
  stay("objects");
}
void stay_closed() {
  ibv_close_device(open_device());
  stay("closed");
}
void stay_in_transfer() {
  RcPair pair(open_device());
  if (!pair.ok()) fail("the queues cannot be connected");
  say("transfer");
  for (ibv_wc wc;;) {
    (void)pair.post_write(4096);
    while (ibv_poll_cq(pair.cq(), 1, &wc) != 0) {
    }
  }
}

struct Mode {
  const char* name;
  void (*run)();
};
constexpr Mode modes[] = {
    {"fatal", fatal},        {"numbers", numbers},           {"before", stay_before},
    {"open", stay_open},     {"objects", stay_with_objects}, {"transfer", stay_in_transfer},
    {"closed", stay_closed},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Mode& mode : modes) {
    if (argc > 1 && std::strcmp(argv[1], mode.name) == 0) {
      mode.run();
      return 0;
    }
  }
  std::fprintf(stderr, "hostile_client: there is no such mode\n");
  return 2;
}
