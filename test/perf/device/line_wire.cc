// SPDX-License-Identifier: BSD-3-Clause
// What a frame takes from one end of a wire to the other, both in this process: a few in a row, and
// one there and one back. Beside it stand bare datagrams of the same length, or copies where the
// wire is memory. What the kernel does is in the times and not in the counts.
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/fd.hh"
#include "perf/device/lines.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/wire.hh"

namespace kilim::perf {
namespace {

// A RoCE frame with 64 bytes of payload. A unix socket queues ten (net.unix.max_dgram_qlen).
constexpr std::size_t frame_bytes = 138;
constexpr uint32_t in_a_row = 8, exchanges = 4;
constexpr std::size_t first_slot = 10;
enum class Kind : uint8_t { unix_socket, udp, shm };

using Frame = std::array<std::byte, frame_bytes>;

// Two sockets that have each other for a peer.
struct Sockets {
  Fd a, b;
};

Fd udp_socket(sockaddr_in& at) {
  Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(at);
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  const bool good =
      fd && ::bind(fd.get(), address, bytes) == 0 && ::getsockname(fd.get(), address, &bytes) == 0;
  return good ? std::move(fd) : Fd{};
}

bool open_sockets(Kind kind, Sockets& s) {
  int both[2];
  if (kind != Kind::udp) {
    if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, both) != 0) return false;
    s = {Fd(both[0]), Fd(both[1])};
    return true;
  }
  sockaddr_in a, b;
  s = {udp_socket(a), udp_socket(b)};
  auto join = [](const Fd& fd, const sockaddr_in& to) {
    return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  };
  return s.a && s.b && join(s.a, b) && join(s.b, a);
}

struct Ends {
  Ends() = default;
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends() {
    a.reset();
    b.reset();
    if (!folder.empty()) std::filesystem::remove_all(folder);
  }
  bool open(Kind kind);

  std::string folder;
  std::unique_ptr<vhca::wire::Wire> a, b;
  Sockets bare;
  Frame forth{}, back{};
  std::array<Frame, in_a_row> copy{};

 private:
  bool specs(Kind kind, std::string& one, std::string& other);
  bool meet();
};

// Ports that were free a moment ago.
bool Ends::specs(Kind kind, std::string& one, std::string& other) {
  if (kind != Kind::udp) {
    std::string name = std::filesystem::temp_directory_path() / "kilim-perf.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return false;
    folder = name;
    one = other = (kind == Kind::shm ? "shm:" : "unix:") + folder;
    return true;
  }
  sockaddr_in here, there;
  const Fd first = udp_socket(here), second = udp_socket(there);
  auto text = [](const sockaddr_in& at) {
    return "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  };
  one = "udp:" + text(here) + ":" + text(there);
  other = "udp:" + text(there) + ":" + text(here);
  return first && second;
}

// Does what a turn of the sending device does, and as many turns of the receiving one as it takes.
bool cross(vhca::wire::Wire& from, vhca::wire::Wire& to, const Frame& frame, uint32_t n) {
  from.cork(true);
  for (uint32_t i = 0; i < n; i++)
    if (from.send(frame) != vhca::wire::Wire::Sent::taken) return false;
  from.cork(false);
  if (!from.flush()) return false;
  uint32_t came = 0;
  for (uint32_t turn = 0; turn < n && came < n; turn++) {
    to.cork(true);
    for (; !to.peek().empty(); to.drop()) came++;
    to.cork(false);
  }
  return came == n;
}

// Neighbours may have to hear of each other first, which takes as many turns as a wire does not
// look for new ones.
bool Ends::meet() {
  constexpr int most_tries = 10000;
  for (int i = 0, good = 0; i < most_tries; i++) {
    const bool there = cross(*a, *b, forth, 1);
    good = cross(*b, *a, back, 1) && there ? good + 1 : 0;
    if (good == 2) return true;
  }
  return false;
}

bool Ends::open(Kind kind) {
  std::string one, other;
  if (!open_sockets(kind, bare) || !specs(kind, one, other)) return false;
  auto left = vhca::wire::make_wire(one), right = vhca::wire::make_wire(other);
  if (!left || !right) return false;
  a = std::move(*left);
  b = std::move(*right);
  const vhca::Mac here = a->mac().value_or(vhca::Mac{2, 0, 0, 0, 0, 1});
  const vhca::Mac there = b->mac().value_or(vhca::Mac{2, 0, 0, 0, 0, 2});
  auto address = [](Frame& f, const vhca::Mac& to, const vhca::Mac& from) {
    std::memcpy(f.data(), to.data(), to.size());
    std::memcpy(f.data() + to.size(), from.data(), from.size());
  };
  address(forth, there, here);
  address(back, here, there);
  return meet();
}

template <Kind kind>
uint32_t open_ends(Rig& r, const Case&) {
  std::shared_ptr<void>& mine = r.of_lines[first_slot + static_cast<std::size_t>(kind)];
  if (mine != nullptr) return 1;
  auto fresh = std::make_shared<Ends>();
  if (!fresh->open(kind)) return 0;
  mine = fresh;
  return 1;
}
template <Kind kind>
Ends& ends_of(Rig& r) {
  return *static_cast<Ends*>(r.of_lines[first_slot + static_cast<std::size_t>(kind)].get());
}

template <Kind kind>
uint32_t by_wire(Rig& r, const Case& c) {
  Ends& e = ends_of<kind>(r);
  if (c.pieces != 1) return cross(*e.a, *e.b, e.forth, c.pieces) ? c.pieces : 0;
  for (uint32_t i = 0; i < exchanges; i++)
    if (!cross(*e.a, *e.b, e.forth, 1) || !cross(*e.b, *e.a, e.back, 1)) return 0;
  return 2 * exchanges;
}

// By one call of each side, which is the least that there is.
bool pass_row(const Sockets& s, const Frame& frame, Frame* copy, uint32_t n) {
  std::array<mmsghdr, in_a_row> out{}, in{};
  std::array<iovec, in_a_row> from, to;
  for (uint32_t i = 0; i < n; i++) {
    from[i] = {const_cast<std::byte*>(frame.data()), frame.size()};
    to[i] = {copy[i].data(), copy[i].size()};
    out[i].msg_hdr.msg_iov = &from[i];
    in[i].msg_hdr.msg_iov = &to[i];
    out[i].msg_hdr.msg_iovlen = in[i].msg_hdr.msg_iovlen = 1;
  }
  const int count = static_cast<int>(n);
  return ::sendmmsg(s.a.get(), out.data(), n, MSG_DONTWAIT) == count &&
         ::recvmmsg(s.b.get(), in.data(), n, MSG_DONTWAIT, nullptr) == count;
}
bool pass(const Fd& from, const Fd& to, const Frame& frame, Frame& copy) {
  const auto bytes = static_cast<ssize_t>(frame.size());
  return ::send(from.get(), frame.data(), frame.size(), MSG_DONTWAIT) == bytes &&
         ::recv(to.get(), copy.data(), copy.size(), MSG_DONTWAIT) == bytes;
}

template <Kind kind>
uint32_t by_datagrams(Rig& r, const Case& c) {
  Ends& e = ends_of<kind>(r);
  if (c.pieces != 1) return pass_row(e.bare, e.forth, e.copy.data(), c.pieces) ? c.pieces : 0;
  for (uint32_t i = 0; i < exchanges; i++) {
    const bool there = pass(e.bare.a, e.bare.b, e.forth, e.copy[0]);
    if (!there || !pass(e.bare.b, e.bare.a, e.back, e.copy[1])) return 0;
  }
  return 2 * exchanges;
}

// Into the ring and out of it.
uint32_t by_copies(Rig& r, const Case&) {
  Ends& e = ends_of<Kind::shm>(r);
  for (uint32_t i = 0; i < 2 * exchanges; i++) {
    std::memcpy(e.copy[0].data(), e.forth.data(), frame_bytes);
    forget_registers();
    std::memcpy(e.copy[1].data(), e.copy[0].data(), frame_bytes);
    forget_registers();
  }
  return 2 * exchanges;
}

constexpr Case cases[] = {{"8 in a row", in_a_row}, {"there, back", 1}};
constexpr Side unix_peers[] = {
    {"datagrams", by_datagrams<Kind::unix_socket>, open_ends<Kind::unix_socket>}};
constexpr Side udp_peers[] = {{"datagrams", by_datagrams<Kind::udp>, open_ends<Kind::udp>}};
constexpr Side shm_peers[] = {{"memcpy, twice", by_copies, open_ends<Kind::shm>}};

}  // namespace

const Line wire_unix_line = {"frame over a unix wire / bare datagram",
                             0,
                             0,
                             cases,
                             {"unix:", by_wire<Kind::unix_socket>, open_ends<Kind::unix_socket>},
                             unix_peers,
                             true,
                             775};
const Line wire_udp_line = {"frame over a udp wire / bare datagram",
                            0,
                            0,
                            cases,
                            {"udp:", by_wire<Kind::udp>, open_ends<Kind::udp>},
                            udp_peers,
                            true,
                            670};
const Line wire_shm_line = {"frame over a shm wire / memcpy, twice",
                            0,
                            0,
                            cases,
                            {"shm:", by_wire<Kind::shm>, open_ends<Kind::shm>},
                            shm_peers,
                            true,
                            780};

}  // namespace kilim::perf
