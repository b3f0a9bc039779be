// SPDX-License-Identifier: BSD-3-Clause
// What others put in a wire's way: folders, links, sockets that are not this user's alone. Sending
// as another user needs root: else the run ends with 77.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frames_fixture.hh"
#include "kilim/detail/base/fd.hh"
#include "ut.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/own_files.hh"
#include "vhca/wire/unix.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace own_files_ut {
namespace {

constexpr uid_t nobody = 65534;

struct Folder {
  std::string name;
  Folder() {
    char text[] = "/tmp/kilim-own-XXXXXX";
    name = mkdtemp(text) != nullptr ? text : "";
  }
  ~Folder() {
    chmod(name.c_str(), 0700);
    std::filesystem::remove_all(name);
  }
  [[nodiscard]] Result<std::unique_ptr<wire::Wire>> open(std::string* why = nullptr) const {
    return wire::make_wire("unix:" + name, why);
  }
};

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

void a_link_in_the_folder_is_not_followed() {
  Folder f, elsewhere;
  const std::string precious = elsewhere.name + "/precious", slot = f.name + "/slot-0";
  std::ofstream(precious) << "mine";
  EQUAL(symlink(precious.c_str(), slot.c_str()), 0);
  std::string why;
  CU_ASSERT(!f.open(&why).ok());
  CU_ASSERT(why.find("slot-N") != std::string::npos);
  EQUAL(text_of(precious), "mine");
  EQUAL(unlink(slot.c_str()), 0);
  EQUAL(link(precious.c_str(), slot.c_str()), 0);
  CU_ASSERT(!f.open().ok());
  EQUAL(text_of(precious), "mine");
  EQUAL(unlink(slot.c_str()), 0);
  EQUAL(mkfifo(slot.c_str(), 0600), 0);
  CU_ASSERT(!f.open().ok());
  EQUAL(unlink(slot.c_str()), 0);
  CU_ASSERT(f.open().ok());
}

// Nor is it believed: a table is read from a plain file of this user's only.
void a_link_in_the_folder_is_no_table() {
  Folder f;
  auto a = *f.open(), b = *f.open();
  const Gid gid{0xfd, 1};
  b->publish(*b->mac(), {&gid, 1});
  CU_ASSERT(a->find(gid).has_value());
  const std::string slot = f.name + "/slot-1", copy = f.name + "/copy";
  std::filesystem::copy(slot, copy);
  EQUAL(unlink(slot.c_str()), 0);
  EQUAL(symlink("copy", slot.c_str()), 0);
  CU_ASSERT(!a->find(gid).has_value());
  EQUAL(unlink(slot.c_str()), 0);
  EQUAL(link(copy.c_str(), slot.c_str()), 0);
  CU_ASSERT(!a->find(gid).has_value());
  EQUAL(unlink(copy.c_str()), 0);
  CU_ASSERT(a->find(gid).has_value());
}

void a_folder_that_others_may_enter_is_refused() {
  Folder f;
  for (mode_t mode : {0777, 0755, 0770, 0710, 0702, 0701, 01777}) {
    EQUAL(chmod(f.name.c_str(), mode), 0);
    std::string why;
    auto wire = f.open(&why);
    CU_ASSERT(!wire.ok() && wire.error().code == EACCES);
    // Whoever owns /tmp is not told to close it.
    CU_ASSERT(why.find("chmod") == std::string::npos);
    CU_ASSERT(why.find("name one that is yours alone") != std::string::npos);
    wire::UnixWire::remove_leftovers(f.name);
  }
  CU_ASSERT(std::filesystem::is_empty(f.name));
  EQUAL(chmod(f.name.c_str(), 0700), 0);
  CU_ASSERT(f.open().ok());
}

// "unix:$XDG_RUNTIME_DIR/w" where that variable is not set.
void no_folder_is_made_in_the_root_folder() {
  const std::string name = "/kilim-none-" + std::to_string(getpid());
  for (const char* kind : {"unix:", "shm:"}) {
    for (const char* end : {"", "/", "//"}) {
      std::string why;
      auto wire = wire::make_wire(kind + name + end, &why);
      CU_ASSERT(!wire.ok());
      CU_ASSERT(why.find("XDG_RUNTIME_DIR") != std::string::npos);
      CU_ASSERT(!std::filesystem::exists(name));
    }
  }
}

void a_folder_of_another_user_is_refused() {
  Folder f;
  bool root = geteuid() == 0;
  CU_ASSERT(!root || chown(f.name.c_str(), nobody, nobody) == 0);
  auto folder = wire::open_own_folder(root ? f.name : "/");
  CU_ASSERT_FATAL(!folder.ok());
  EQUAL(folder.error().code, EACCES);
  CU_ASSERT(std::string(folder.error().what).find("another user") != std::string::npos);
  CU_ASSERT(!root || !f.open().ok());
  CU_ASSERT(!root || chown(f.name.c_str(), 0, 0) == 0);
}

void a_link_to_a_folder_is_refused() {
  Folder f, g;
  const std::string to = f.name + "/to", file = f.name + "/file";
  EQUAL(symlink(g.name.c_str(), to.c_str()), 0);
  std::ofstream(file) << "mine";
  for (const std::string& bad : {to, file}) {
    auto wire = wire::make_wire("unix:" + bad);
    CU_ASSERT(!wire.ok() && wire.error().code == ENOTDIR);
  }
  CU_ASSERT(std::filesystem::is_empty(g.name));
}

void a_pair_of_sockets_lies_in_folders_of_ones_own() {
  Folder f, open_to_all;
  EQUAL(chmod(open_to_all.name.c_str(), 0755), 0);
  const std::string mine = f.name + "/a", there = open_to_all.name + "/b";
  CU_ASSERT(wire::make_wire("dgram:" + mine + ":" + f.name + "/b").ok());
  CU_ASSERT(!wire::make_wire("dgram:" + mine + ":" + there).ok());
  CU_ASSERT(!wire::make_wire("dgram:" + there + ":" + mine).ok());
  CU_ASSERT(!wire::make_wire("dgram:" + mine + ":/b").ok());
  CU_ASSERT(std::filesystem::is_empty(open_to_all.name));
  CU_ASSERT(std::filesystem::is_empty(f.name));
}

// A datagram to the socket `to` from the socket `from`, by the user `who`, maybe with descriptors.
bool send_as(const std::string& from, const std::string& to, const Bytes& frame, uid_t who,
             int descriptor = -1) {
  Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un ours{AF_UNIX, {}}, theirs{AF_UNIX, {}};
  from.copy(ours.sun_path, sizeof(ours.sun_path) - 1);
  to.copy(theirs.sun_path, sizeof(theirs.sun_path) - 1);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&ours), sizeof(ours)) != 0) return false;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))] = {};
  iovec piece{const_cast<std::byte*>(frame.data()), frame.size()};
  msghdr m{};
  m.msg_name = &theirs;
  m.msg_namelen = sizeof(theirs);
  m.msg_iov = &piece;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = descriptor < 0 ? CMSG_SPACE(sizeof(ucred)) : sizeof(control);
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  *c = {CMSG_LEN(sizeof(ucred)), SOL_SOCKET, SCM_CREDENTIALS};
  const ucred creds{getpid(), who, getgid()};
  std::memcpy(CMSG_DATA(c), &creds, sizeof(creds));
  if (descriptor >= 0) {
    c = CMSG_NXTHDR(&m, c);
    *c = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(c), &descriptor, sizeof(descriptor));
  }
  const bool sent = ::sendmsg(fd.get(), &m, 0) == static_cast<ssize_t>(frame.size());
  (void)!unlink(from.c_str());
  return sent;
}

void a_frame_of_another_user_is_not_taken() {
  Folder f;
  auto a = *f.open();
  auto b = *wire::make_wire("dgram:" + f.name + "/b:" + f.name + "/c");
  const Bytes theirs = make_frame({.payload = 5}), ours = make_frame({.payload = 7});
  if (geteuid() == 0) {
    CU_ASSERT(send_as(f.name + "/7", f.name + "/0", theirs, nobody));
    CU_ASSERT(send_as(f.name + "/c", f.name + "/b", theirs, nobody));
  }
  CU_ASSERT(send_as(f.name + "/7", f.name + "/0", ours, getuid()));
  CU_ASSERT(send_as(f.name + "/c", f.name + "/b", ours, getuid()));
  for (wire::Wire* w : {a.get(), b.get()}) {
    std::span<const std::byte> got = w->peek();
    CU_ASSERT(std::equal(got.begin(), got.end(), ours.begin(), ours.end()));
    w->drop();
    CU_ASSERT(w->peek().empty());
    EQUAL(w->counters().rx_malformed, geteuid() == 0 ? 1 : 0);
  }
}

std::ptrdiff_t open_descriptors() {
  std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

void descriptors_that_come_along_are_not_kept() {
  Folder f;
  auto a = *f.open();
  const Bytes frame = make_frame({});
  const std::ptrdiff_t before = open_descriptors();
  for (int i = 0; i < 3; i++) {
    CU_ASSERT(send_as(f.name + "/7", f.name + "/0", frame, getuid(), 1));
    CU_ASSERT(!a->peek().empty());
    a->drop();
  }
  EQUAL(open_descriptors(), before);
}

bool put(const char* file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  return out.flush().good();
}

// As `kilim-vhca --sysfs mount` does for an ordinary user.
bool enter_user_namespace(uid_t uid) {
  const std::string same = std::to_string(uid) + " " + std::to_string(uid) + " 1";
  return unshare(CLONE_NEWUSER) == 0 && put("/proc/self/uid_map", same) && getuid() == uid;
}

// In a user namespace of its own: sends, and waits for an answer.
[[noreturn]] void be_a_neighbour(const Folder& f, const Bytes& frame, int ready) {
  if (!enter_user_namespace(getuid())) _exit(1);
  auto b = f.open();
  if (!b.ok() || (*b)->send(frame) != wire::Wire::Sent::taken) _exit(2);
  char c = 0;
  (void)!write(ready, &c, 1);
  pollfd answer{(*b)->fd(), POLLIN, 0};
  poll(&answer, 1, 10'000);
  _exit(!(*b)->peek().empty() && (*b)->counters().rx_malformed == 0 ? 0 : 3);
}

void one_user_in_two_user_namespaces_is_himself() {
  Folder f;
  auto a = *f.open();
  const Bytes there = make_frame({.payload = 3}), back = make_frame({.payload = 4});
  int ready[2];
  EQUAL_FATAL(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    be_a_neighbour(f, there, ready[1]);
  }
  close(ready[1]);
  char c = 0;
  EQUAL(read(ready[0], &c, 1), 1);
  std::span<const std::byte> got = a->peek();
  CU_ASSERT(std::equal(got.begin(), got.end(), there.begin(), there.end()));
  Bytes to_child = back;
  std::memset(to_child.data(), 0xff, 6);
  EQUAL(a->send(to_child), wire::Wire::Sent::taken);
  int status = -1;
  waitpid(child, &status, 0);
  CU_ASSERT(WIFEXITED(status));
  EQUAL(WEXITSTATUS(status), 0);
  close(ready[0]);
}

constexpr Case cases[] = {
    {"a link in the folder is not followed", a_link_in_the_folder_is_not_followed},
    {"a link in the folder is no table", a_link_in_the_folder_is_no_table},
    {"a folder that others may enter is refused", a_folder_that_others_may_enter_is_refused},
    {"no folder is made in the root folder", no_folder_is_made_in_the_root_folder},
    {"a folder of another user is refused", a_folder_of_another_user_is_refused},
    {"a link to a folder is refused", a_link_to_a_folder_is_refused},
    {"a pair of sockets lies in folders of one's own",
     a_pair_of_sockets_lies_in_folders_of_ones_own},
    {"a frame of another user is not taken", a_frame_of_another_user_is_not_taken},
    {"descriptors that come along are not kept", descriptors_that_come_along_are_not_kept},
    {"one user in two user namespaces is himself", one_user_in_two_user_namespaces_is_himself},
};

}  // namespace
}  // namespace own_files_ut

KILIM_TEST_MAIN(own_files) {
  int failed = run_cases("vhca/wire own files", own_files_ut::cases, argc, argv);
  if (failed == 0 && geteuid() != 0) {
    std::printf("skipped for frames of other users: only root sends as somebody else\n");
    return 77;
  }
  return failed;
}
