// SPDX-License-Identifier: BSD-3-Clause
// A plain verbs program for the launcher's tests: knows nothing of Kilim. `client MODE [NAME]`
// exits 0 when what the mode says happened, else says on stderr what did not.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc_pair_fixture.hh"

using kilim::test::open_by_name;
using kilim::test::RcPair;

namespace {

const char* device_name = "vhca0";

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "client: %s (%s)\n", what, std::strerror(errno));
  std::exit(1);
}

ibv_context* open_device() {
  ibv_context* context = open_by_name(device_name);
  if (context == nullptr) fail("the device does not open");
  return context;
}

bool poll_one(RcPair& pair) {
  ibv_wc wc{};
  for (long i = 0; i < 20'000'000; i++) {
    if (ibv_poll_cq(pair.cq(), 1, &wc) != 0) return wc.status == IBV_WC_SUCCESS;
  }
  return false;
}

void write_and_compare(RcPair& pair, int rounds) {
  for (int i = 1; i <= rounds; i++) {
    std::memset(pair.from(), i, 256);
    if (pair.post_write(256) != 0) fail("a write cannot be posted");
    if (!poll_one(pair)) fail("a write does not complete");
    if (std::memcmp(pair.from(), pair.to(), 256) != 0) fail("a write wrote something else");
  }
}

// Busy-polls, as most programs do.
void traffic() {
  ibv_context* context = open_device();
  {
    RcPair pair(context);
    if (!pair.ok()) fail("the queues cannot be connected");
    write_and_compare(pair, 1000);
  }
  if (ibv_close_device(context) != 0) fail("the device does not close");
}

// An extended completion queue has a poll function of its own.
void extended() {
  ibv_context* context = open_device();
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN;
  ibv_cq_ex* cq = ibv_create_cq_ex(context, &attr);
  if (cq == nullptr) fail("an extended queue cannot be made");
  ibv_poll_cq_attr poll{};
  for (int i = 0; i < 1000; i++) {
    if (ibv_start_poll(cq, &poll) != ENOENT) fail("an empty queue is not empty");
  }
  ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
  ibv_close_device(context);
}

// Ends with everything alive, the sleeping or the working thread included.
void exit_with_live_objects() {
  auto* pair = new RcPair(open_device());
  if (!pair->ok()) fail("the queues cannot be connected");
  if (pair->post_write(64) != 0) fail("a write cannot be posted");
  std::exit(0);
}

int in_child() {
  ibv_context* own = open_by_name(device_name);
  if (own == nullptr) return 1;
  {
    RcPair pair(own);
    if (!pair.ok()) return 2;
    if (pair.post_write(64) != 0) return 3;
    if (!poll_one(pair)) return 4;
  }
  return ibv_close_device(own) == 0 ? 0 : 5;
}

void fork_children() {
  if (ibv_fork_init() != 0) fail("ibv_fork_init");
  ibv_context* context = open_device();
  auto pair = std::make_unique<RcPair>(context);
  if (!pair->ok()) fail("the queues cannot be connected");
  for (int i = 0; i < 200; i++) {
    if (pair->post_write(64) != 0) fail("a write cannot be posted");
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      // Most children only end; every tenth uses a device of its own.
      ::_exit(i % 10 == 0 ? in_child() : 0);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) {
      std::fprintf(stderr, "client: child %d ended with status 0x%x\n", i, status);
      std::exit(1);
    }
    if (!poll_one(*pair)) fail("the parent's write does not complete");
  }
}

void import_duplicate() {
  ibv_context* context = open_device();
  ibv_pd* pd = ibv_alloc_pd(context);
  const int copy = ::dup(context->cmd_fd);
  ibv_context* imported = ibv_import_device(copy);
  if (imported == nullptr) fail("a duplicated descriptor cannot be imported");
  ibv_pd* same = ibv_import_pd(imported, pd->handle);
  if (same == nullptr) fail("a protection domain cannot be imported");
  ibv_unimport_pd(same);
  ibv_dealloc_pd(pd);
  if (ibv_close_device(context) != 0) fail("the device does not close");
  ibv_port_attr port{};
  if (ibv_query_port(imported, 1, &port) != 0) fail("the open ended with its first descriptor");
  if (ibv_close_device(imported) != 0) fail("the imported device does not close");
}

// What a child of vfork() closes before it executes something stays open here.
void vfork_closes() {
  ibv_context* context = open_device();
  const pid_t child = ::vfork();
  if (child == 0) {
    ::close(context->cmd_fd);
    ::_exit(0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) fail("vfork");
  ibv_pd* pd = ibv_alloc_pd(context);
  if (pd == nullptr) fail("the child has closed its parent's device");
  ibv_dealloc_pd(pd);
  if (ibv_close_device(context) != 0) fail("the device does not close");
}

// Others' descriptors are others' while a device is open.
void foreign_files() {
  ibv_context* context = open_device();
  struct stat st {};
  if (::fstat(context->cmd_fd, &st) != 0 || !S_ISCHR(st.st_mode)) fail("not a character device");
  const int null = ::open("/dev/null", O_RDWR);
  if (::ioctl(null, 0x1b01, nullptr) != -1 || errno != ENOTTY) fail("/dev/null answers verbs");
  void* page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, context->cmd_fd, 0);
  if (page == MAP_FAILED) fail("anonymous memory with a device's descriptor");
  if (::fstat(null, &st) != 0 || st.st_rdev != 0x103) fail("/dev/null has another number");
  ibv_close_device(context);
}

volatile sig_atomic_t faults = 0;
void on_fault(int, siginfo_t*, void*) {
  faults = faults + 1;
  ::_exit(faults == 1 ? 0 : 1);
}

// A program's own handler gets its own faults, and the device keeps those of bad memory.
void fault_handler() {
  ibv_context* context = open_device();
  struct sigaction act {
  }, old{};
  act.sa_sigaction = on_fault;
  act.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGSEGV, &act, nullptr) != 0) fail("sigaction");
  if (::sigaction(SIGSEGV, nullptr, &old) != 0 || old.sa_sigaction != on_fault) {
    fail("sigaction does not give back what was set");
  }
  ibv_pd* pd = ibv_alloc_pd(context);
  void* gone = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (ibv_reg_mr(pd, gone, 4096, 0) != nullptr || errno != EFAULT) fail("bad memory is registered");
  if (faults != 0) fail("the program's handler was called for the device's fault");
  *static_cast<volatile char*>(gone) = 1;
  fail("the program's handler was not called");
}

void no_device() {
  int n = -1;
  ibv_device** list = ibv_get_device_list(&n);
  if (list == nullptr ? errno != ENOSYS : open_by_name(device_name) != nullptr) {
    fail("there is a device");
  }
}

struct Mode {
  const char* name;
  void (*run)();
};
constexpr Mode modes[] = {
    {"traffic", traffic},     {"extended", extended},    {"exit", exit_with_live_objects},
    {"fork", fork_children},  {"dup", import_duplicate}, {"foreign", foreign_files},
    {"fault", fault_handler}, {"none", no_device},       {"vfork", vfork_closes},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) device_name = argv[2];
  for (const Mode& mode : modes) {
    if (argc > 1 && std::strcmp(argv[1], mode.name) == 0) {
      mode.run();
      return 0;
    }
  }
  std::fprintf(stderr, "client: there is no such mode\n");
  return 2;
}
