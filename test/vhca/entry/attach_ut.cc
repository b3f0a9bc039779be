// SPDX-License-Identifier: BSD-3-Clause
// Attaching in process: unmodified libibverbs and libmlx5 find the device, and nobody else notices.

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "in_child.hh"
#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/core/journal.hh"
#include "vhca/entry/attach.hh"
#include "vhca/entry/calls.hh"
#include "vhca/entry/device_list.hh"
#include "vhca/entry/open_files.hh"
#include "vhca/hca/hca.hh"

using namespace kilim;
using namespace kilim::vhca;
using test::open_by_name;
using test::RcPair;

namespace attach_ut {
namespace {

entry::Attached* attach_named(const char* name) {
  DeviceSpec config;
  config.name = name;
  auto attached = entry::attach(config);
  return attached.ok() ? *attached : nullptr;
}

constexpr unsigned hung_seconds = 20;

int attaches_inchild0() {
  return attach_named("inchild0") != nullptr && test::is_listed("inchild0") ? 0 : 1;
}

// The first of all cases: in a process that has attached nothing, nor does here, a thread is held
// up on its way to the first device.
void a_fork_waits_for_the_first_device() {
  std::atomic<bool> begun{false}, over{false};
  std::thread other([&] {
    {
      const LockGuard attaching(entry::device_list::attach_lock);
      begun = true;
      ::usleep(20'000);
    }
    while (!over) std::this_thread::yield();
  });
  while (!begun) std::this_thread::yield();
  EQUAL(test::in_child(attaches_inchild0, hung_seconds), 0);
  over = true;
  other.join();
}

// First of all cases that attach: the list is asked for before there is a device.
void attaches_after_a_first_list() {
  CU_ASSERT(!test::is_listed("first0"));
  entry::Attached* attached = attach_named("first0");
  CU_ASSERT_FATAL(attached != nullptr);
  EQUAL(attached->name(), "first0");
  CU_ASSERT(attached->hca() != nullptr);
  CU_ASSERT(test::is_listed("first0"));
  EQUAL(std::getenv("SYSFS_PATH"), nullptr);
}

void opens_and_answers() {
  CU_ASSERT_FATAL(attach_named("open0") != nullptr);
  ibv_context* context = open_by_name("open0");
  CU_ASSERT_FATAL(context != nullptr);
  ibv_port_attr port{};
  EQUAL(ibv_query_port(context, 1, &port), 0);
  EQUAL(port.state, IBV_PORT_ACTIVE);
  EQUAL(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EQUAL(ibv_close_device(context), 0);
}

void several_devices_and_detach() {
  entry::Attached* one = attach_named("many0");
  entry::Attached* two = attach_named("many1");
  CU_ASSERT_FATAL(one != nullptr);
  CU_ASSERT_FATAL(two != nullptr);
  CU_ASSERT(one->hca() != two->hca());
  ibv_context* context = open_by_name("many1");
  CU_ASSERT_FATAL(context != nullptr);
  two->detach();
  CU_ASSERT(test::is_listed("many0"));
  CU_ASSERT(!test::is_listed("many1"));
  ibv_port_attr port{};
  EQUAL(ibv_query_port(context, 1, &port), 0);
  ibv_close_device(context);
  CU_ASSERT(attach_named("many1") != nullptr);
  CU_ASSERT(test::is_listed("many1"));
}

int error_of(const DeviceSpec& config) {
  auto attached = entry::attach(config);
  return attached.ok() ? 0 : attached.error().code;
}

void refuses_with_a_reason() {
  DeviceSpec config;
  config.name = "bad name";
  EQUAL(error_of(config), EINVAL);
  config.name = "";
  EQUAL(error_of(config), EINVAL);
  config.name = "refused0";
  config.profile = "no such profile";
  EQUAL(error_of(config), EINVAL);
  config.profile = "cx6dx";
  config.wires = {"nowhere:x"};
  EQUAL(error_of(config), EINVAL);
  CU_ASSERT(!test::is_listed("refused0"));
  config.wires = {};
  EQUAL(error_of(config), 0);
  EQUAL(error_of(config), EEXIST);
}

void runs_from_poll() {
  entry::Attached* attached = attach_named("run0");
  CU_ASSERT_FATAL(attached != nullptr);
  ibv_context* context = open_by_name("run0");
  CU_ASSERT_FATAL(context != nullptr);
  {
    RcPair pair(context);
    CU_ASSERT_FATAL(pair.ok());
    std::memset(pair.from(), 0x5a, 100);
    EQUAL(pair.post_write(100), 0);
    ibv_wc wc{};
    EQUAL(ibv_poll_cq(pair.cq(), 1, &wc), 0);
    for (int i = 0; i < 100 && ibv_poll_cq(pair.cq(), 1, &wc) == 0; i++) attached->poll();
    EQUAL(wc.status, IBV_WC_SUCCESS);
    EQUAL(wc.wr_id, 100);
    EQUAL(std::memcmp(pair.from(), pair.to(), 100), 0);
    EQUAL(attached->hca()->context.journal->count(Journal::Kind::wqe), 1);
  }
  ibv_close_device(context);
}

// dup() and F_DUPFD are not seen; the file is known by its inode.
void knows_duplicated_descriptors() {
  CU_ASSERT_FATAL(attach_named("dup0") != nullptr);
  ibv_context* context = open_by_name("dup0");
  CU_ASSERT_FATAL(context != nullptr);
  ibv_context* imported = ibv_import_device(::fcntl(context->cmd_fd, F_DUPFD_CLOEXEC, 100));
  CU_ASSERT_FATAL(imported != nullptr);
  ibv_pd* pd = ibv_alloc_pd(context);
  CU_ASSERT_FATAL(pd != nullptr);
  ibv_pd* same = ibv_import_pd(imported, pd->handle);
  CU_ASSERT(same != nullptr);
  if (same != nullptr) ibv_unimport_pd(same);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  // The other descriptor still refers to the open.
  ibv_port_attr port{};
  EQUAL(ibv_query_port(imported, 1, &port), 0);
  ibv_close_device(imported);
}

// The descriptor of a device that was closed behind libibverbs's back is somebody else's file.
void foreign_files_stay_foreign() {
  CU_ASSERT_FATAL(attach_named("foreign0") != nullptr);
  ibv_context* context = open_by_name("foreign0");
  CU_ASSERT_FATAL(context != nullptr);
  const int copy = ::dup(context->cmd_fd);
  const int other = ::memfd_create("other", MFD_CLOEXEC);
  EQUAL(::dup2(other, context->cmd_fd), context->cmd_fd);
  errno = 0;
  EQUAL(ibv_alloc_pd(context), nullptr);
  EQUAL(errno, ENOTTY);
  EQUAL(::dup2(copy, context->cmd_fd), context->cmd_fd);
  ibv_pd* pd = ibv_alloc_pd(context);
  CU_ASSERT(pd != nullptr);
  if (pd != nullptr) ibv_dealloc_pd(pd);
  ::close(copy);
  ::close(other);
  ibv_close_device(context);
}

// More rounds than there may be opens at a time.
void closing_gives_everything_back() {
  entry::Attached* attached = attach_named("rounds0");
  CU_ASSERT_FATAL(attached != nullptr);
  for (int i = 0; i < 1100; i++) {
    ibv_context* context = open_by_name("rounds0");
    CU_ASSERT_FATAL(context != nullptr);
    EQUAL(ibv_close_device(context), 0);
  }
}

int open_uverbs(const char* name) {
  const entry::Device* device = entry::device_list::find_name(name);
  if (device == nullptr) return -1;
  const std::string path = "/dev/infiniband/uverbs" + std::to_string(device->config().number);
  return entry::calls::open(path.c_str(), O_RDWR | O_CLOEXEC).value_or(-1);
}

// Each of two threads sees the other's descriptor, or has closed its own: one of them ends the
// open.
void two_threads_close_the_last_two_descriptors() {
  CU_ASSERT_FATAL(attach_named("twice0") != nullptr);
  const std::size_t opens = entry::open_files::count();
  for (int i = 0; i < 500; i++) {
    const int one = open_uverbs("twice0"), two = ::dup(one);
    CU_ASSERT_FATAL(one >= 0);
    CU_ASSERT_FATAL(two >= 0);
    EQUAL_FATAL(entry::open_files::count(), opens + 1);
    std::atomic<int> ready{0}, bad{0};
    const auto close_at_once = [&](int fd) {
      ready++;
      while (ready < 2) std::this_thread::yield();
      if (entry::calls::close(fd) != 0) bad++;
    };
    std::thread other(close_at_once, two);
    close_at_once(one);
    other.join();
    EQUAL(bad, 0);
    EQUAL_FATAL(entry::open_files::count(), opens);
  }
}

// Closes the first of two descriptors while no number below the limit is free. `at_first`: the
// limit is at the first, so that closing it frees none; else above both.
void close_at_the_limit(bool at_first) {
  const std::size_t opens = entry::open_files::count();
  const int first = open_uverbs("limit0"), second = ::dup(first);
  CU_ASSERT_FATAL(first >= 0);
  CU_ASSERT_FATAL(second > first);
  rlimit before{};
  EQUAL_FATAL(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lowered = before;
  lowered.rlim_cur = static_cast<rlim_t>(at_first ? first : second + 1);
  EQUAL_FATAL(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  const int none = ::open("/dev/null", O_RDONLY);
  const int result = entry::calls::close(first);
  const std::size_t left = entry::open_files::count();
  EQUAL(::setrlimit(RLIMIT_NOFILE, &before), 0);
  CU_ASSERT(none < 0);
  EQUAL(result, 0);
  EQUAL(left, opens + 1);
  EQUAL(entry::calls::close(second), 0);
  EQUAL(entry::open_files::count(), opens);
}

void an_open_outlives_a_close_at_the_limit() {
  CU_ASSERT_FATAL(attach_named("limit0") != nullptr);
  close_at_the_limit(false);
  close_at_the_limit(true);
}

void closing_answers_as_the_kernel_does() {
  CU_ASSERT_FATAL(attach_named("answer0") != nullptr);
  const int fd = open_uverbs("answer0");
  CU_ASSERT_FATAL(fd >= 0);
  errno = ENOTTY;
  CU_ASSERT(entry::calls::close(fd) == 0 && errno == ENOTTY);
  CU_ASSERT(entry::calls::close(fd) == -1 && errno == EBADF);
}

int child_of_fork(ibv_context* inherited) {
  ibv_pd* pd = ibv_alloc_pd(inherited);
  if (pd != nullptr) return 1;
  ibv_context* own = open_by_name("fork0");
  if (own == nullptr) return 2;
  pd = ibv_alloc_pd(own);
  if (pd == nullptr) return 3;
  ibv_dealloc_pd(pd);
  return ibv_close_device(own) == 0 ? 0 : 4;
}

void forked_children_have_their_own() {
  DeviceSpec config;
  config.name = "fork0";
  config.progress = Progress::thread;
  CU_ASSERT_FATAL(entry::attach(config).ok());
  ibv_context* context = open_by_name("fork0");
  CU_ASSERT_FATAL(context != nullptr);
  for (int i = 0; i < 20; i++)
    EQUAL(test::in_child([context] { return child_of_fork(context); }), 0);
  {
    RcPair pair(context);
    CU_ASSERT(pair.ok());
  }
  ibv_close_device(context);
}

int opens_calls0() {
  ibv_context* own = open_by_name("calls0");
  return own != nullptr && ibv_close_device(own) == 0 ? 0 : 1;
}

// The first open of a process starts a thread that renews its clock page. ThreadSanitizer (GCC 12)
// still counts the parent's threads in a child, and ends it there: "dup thread with used id".
#ifdef __SANITIZE_THREAD__
constexpr int forks_among_calls_max = 0;
#else
constexpr int forks_among_calls_max = 300;
#endif

// Threads that call meanwhile leave no lock behind in the child.
void forks_among_calls() {
  CU_ASSERT_FATAL(attach_named("calls0") != nullptr);
  ibv_context* context = open_by_name("calls0");
  CU_ASSERT_FATAL(context != nullptr);
  std::atomic<bool> over{false};
  const auto call = [&] {
    while (!over.load()) {
      if (ibv_pd* pd = ibv_alloc_pd(context); pd != nullptr) ibv_dealloc_pd(pd);
    }
  };
  std::thread one(call), two(call);
  bool good = true;
  for (int i = 0; i < forks_among_calls_max && good; i++) {
    good = test::in_child(opens_calls0, hung_seconds) == 0;
  }
  over = true;
  one.join();
  two.join();
  CU_ASSERT(good);
  ibv_close_device(context);
}

// Nor does a thread that attaches. It allocates nothing outside of attach(), nor begins or ends
// meanwhile: AddressSanitizer's allocator (GCC 12) has locks that a child inherits taken.
void forks_among_attaches() {
  std::vector<DeviceSpec> configs(40);
  for (std::size_t i = 0; i < configs.size(); i++) configs[i].name = "among" + std::to_string(i);
  std::atomic<bool> begun{false}, over{false};
  std::atomic<std::size_t> tried{0}, attached{0};
  std::thread other([&] {
    begun = true;
    for (const DeviceSpec& config : configs) {
      if (entry::attach(config).ok()) attached++;
      tried++;
    }
    while (!over) std::this_thread::yield();
  });
  while (!begun) std::this_thread::yield();
  bool good = true;
  while (tried < configs.size() && good) {
    good = test::in_child(attaches_inchild0, hung_seconds) == 0;
  }
  over = true;
  other.join();
  CU_ASSERT(good);
  EQUAL(attached.load(), configs.size());
}

const test::Case cases[] = {
    {"a child forked while another thread attaches the first device does so too",
     a_fork_waits_for_the_first_device},
    {"attach works after a first device list, without touching the environment",
     attaches_after_a_first_list},
    {"an attached device opens and its port is active", opens_and_answers},
    {"several devices are attached, one is detached and attached again",
     several_devices_and_detach},
    {"a bad name, profile or wire and a second time are refused", refuses_with_a_reason},
    {"work is done when polled, and not before", runs_from_poll},
    {"a duplicated descriptor is the same open", knows_duplicated_descriptors},
    {"a descriptor that became another file is the kernel's", foreign_files_stay_foreign},
    {"1100 opens and closes leave room for more", closing_gives_everything_back},
    {"of two threads that close the last two descriptors one ends the open",
     two_threads_close_the_last_two_descriptors},
    {"an open outlives a close while no descriptor is free", an_open_outlives_a_close_at_the_limit},
    {"closing answers as the kernel does", closing_answers_as_the_kernel_does},
    {"a forked child opens a device of its own and leaves the parent's alone",
     forked_children_have_their_own},
    {"a child forked among other threads' calls opens a device too", forks_among_calls},
    {"a child forked while another thread attaches does so too", forks_among_attaches},
};

}  // namespace
}  // namespace attach_ut

KILIM_TEST_SUITE(attach, attach_ut::cases)
