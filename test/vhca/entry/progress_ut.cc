// SPDX-License-Identifier: BSD-3-Clause
// The adapter's thread: asleep, it is woken by a doorbell.

#include <chrono>
#include <cstring>
#include <thread>

#include <infiniband/verbs.h>
#include <poll.h>

#include "rc_pair.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace std::chrono_literals;
using test::RcPair;

namespace {

ibv_context* open_threaded(const char* name) {
  AttachConfig config;
  config.name = name;
  config.progress = Progress::thread;
  return attach(config).ok() ? test::open_by_name(name) : nullptr;
}

// Longer than the spin: the thread sleeps.
void let_it_sleep() {
  std::this_thread::sleep_for(5ms);
}

// Nobody polls: memory changes because the thread was woken.
void doorbell_wakes_it() {
  ibv_context* context = open_threaded("wake0");
  CU_ASSERT_FATAL(context != nullptr);
  {
    RcPair pair(context);
    CU_ASSERT_FATAL(pair.ok());
    for (uint8_t round = 1; round <= 20; round++) {
      let_it_sleep();
      std::memset(pair.from(), round, 64);
      CU_ASSERT(pair.post_write(64) == 0);
      const auto volatile* last = pair.to() + 63;
      for (int i = 0; i < 500 && *last != round; i++) std::this_thread::sleep_for(1ms);
      CU_ASSERT(*last == round);
      ibv_wc wc{};
      for (int i = 0; i < 500 && ibv_poll_cq(pair.cq(), 1, &wc) == 0; i++) {
        std::this_thread::sleep_for(1ms);
      }
      CU_ASSERT(wc.status == IBV_WC_SUCCESS && wc.wr_id == 64);
    }
  }
  ibv_close_device(context);
}

void completion_channel_becomes_readable() {
  ibv_context* context = open_threaded("event0");
  CU_ASSERT_FATAL(context != nullptr);
  {
    RcPair pair(context, true);
    CU_ASSERT_FATAL(pair.ok());
    for (int round = 0; round < 10; round++) {
      CU_ASSERT(ibv_req_notify_cq(pair.cq(), 0) == 0);
      let_it_sleep();
      CU_ASSERT(pair.post_write(8) == 0);
      pollfd ready{pair.channel()->fd, POLLIN, 0};
      CU_ASSERT_FATAL(::poll(&ready, 1, 2000) == 1);
      ibv_cq* cq = nullptr;
      void* owner = nullptr;
      CU_ASSERT(ibv_get_cq_event(pair.channel(), &cq, &owner) == 0 && cq == pair.cq());
      ibv_ack_cq_events(cq, 1);
      ibv_wc wc{};
      CU_ASSERT(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    }
  }
  ibv_close_device(context);
}

const test::Case cases[] = {
    {"a doorbell wakes the sleeping thread, which does the work", doorbell_wakes_it},
    {"a completion channel wakes a client that sleeps as well",
     completion_channel_becomes_readable},
};

}  // namespace

KILIM_UT_MAIN("progress", cases)
