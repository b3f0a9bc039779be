// SPDX-License-Identifier: BSD-3-Clause
// Slots, sockets and addresses of a folder.
#include "vhca/wire/unix.hh"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "vhca/wire/own_files.hh"

namespace kilim::vhca {

namespace {

constexpr int send_buffer = 4 << 20;  // bytes; a datagram waits in its sender's (unix(7))
// A path of unix(7) has 108 bytes; "/65535" and the end need 7.
constexpr std::size_t longest_folder = sizeof(sockaddr_un::sun_path) - 8;
constexpr uint8_t port_number = 1;  // a slot is one port's alone

// What a slot's file holds, once for each GID of its port.
struct TableRow {
  Gid gid;
  Mac mac;
};
static_assert(sizeof(TableRow) == 22);
constexpr std::size_t most_rows = 64;

// Locally administered, "KL", the slot.
Mac mac_of_slot(uint32_t slot) noexcept {
  return {0x02,       0x4b, 0x4c, static_cast<uint8_t>(slot >> 8), static_cast<uint8_t>(slot),
          port_number};
}

// Socket of a slot: "FOLDER/7". Returns the address's length.
socklen_t address_of(const std::string& folder, uint32_t slot, sockaddr_un& a) noexcept {
  a.sun_family = AF_UNIX;
  std::memcpy(a.sun_path, folder.data(), folder.size());
  char* p = a.sun_path + folder.size();
  *p++ = '/';
  p = std::to_chars(p, a.sun_path + sizeof(a.sun_path) - 1, slot).ptr;
  *p = '\0';
  return static_cast<socklen_t>(p + 1 - reinterpret_cast<char*>(&a));
}

// The slot of a sender; UnixWire::slots: it has none.
uint32_t slot_of(const sockaddr_un& a, socklen_t bytes) noexcept {
  const char* end = reinterpret_cast<const char*>(&a) + bytes;
  if (bytes <= offsetof(sockaddr_un, sun_path) || bytes > sizeof(a)) return UnixWire::slots;
  if (end[-1] == '\0') end--;
  const char* name = end;
  while (name > a.sun_path && name[-1] != '/') name--;
  uint32_t slot = UnixWire::slots;
  auto [stop, error] = std::from_chars(name, end, slot);
  return error == std::errc() && stop == end && slot < UnixWire::slots ? slot : UnixWire::slots;
}

// The file of a slot: "slot-7" in the folder. It stays when its port goes, so the files are
// numbered without a gap.
struct SlotFile {
  char name[16];
  explicit SlotFile(uint32_t slot) noexcept { std::snprintf(name, sizeof(name), "slot-%u", slot); }
  [[nodiscard]] bool exists(int folder) const noexcept {
    struct stat st;
    return ::fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
  }
};

// Opens a file of the folder that is no link and this user's alone; else ELOOP, EPERM and others.
Fd open_slot(int folder, uint32_t slot, int flags) noexcept {
  constexpr int careful = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Fd fd(openat(folder, SlotFile(slot).name, flags | careful, 0600));
  if (fd && !is_own_file(fd.get())) {
    fd.reset();
    errno = EPERM;
  }
  return fd;
}

Fd try_lock(int folder, uint32_t slot) noexcept {
  Fd fd = open_slot(folder, slot, O_RDWR | O_CREAT);
  if (fd && flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

// A slot's socket, whatever its folder is called by now. Any other file of that name stays.
void remove_socket(int folder, uint32_t slot) noexcept {
  char name[16];
  std::snprintf(name, sizeof(name), "%u", slot);
  struct stat st;
  if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode))
    (void)!unlinkat(folder, name, 0);
}

// Sockets behind the last slot in use belong to nobody who lives.
void sweep(int folder, uint32_t from) noexcept {
  for (uint32_t slot = from; slot < UnixWire::slots && SlotFile(slot).exists(folder); slot++) {
    if (Fd lock = try_lock(folder, slot)) remove_socket(folder, slot);
  }
}

// The address that the table of a slot names for this GID. Whoever wrote it may have written
// anything, and the file may be none.
std::optional<Mac> find_in(int folder, uint32_t slot, const Gid& gid) noexcept {
  Fd fd = open_slot(folder, slot, O_RDONLY);
  if (!fd) return std::nullopt;
  TableRow rows[most_rows];
  ssize_t n = read(fd.get(), rows, sizeof(rows));
  for (std::size_t i = 0; n > 0 && i < static_cast<std::size_t>(n) / sizeof(TableRow); i++) {
    const Mac& mac = rows[i].mac;
    if (rows[i].gid == gid && (mac[0] & 1) == 0 && mac != Mac{}) return mac;
  }
  return std::nullopt;
}

}  // namespace

void UnixWire::remove_leftovers(const std::string& folder) {
  if (Result<Fd> own = open_own_folder(folder)) sweep(own->get(), 0);
}

std::string UnixWire::folder_of(std::string_view spec) {
  constexpr std::string_view kind = "unix:";
  if (!spec.starts_with(kind)) return {};
  return std::string(spec.substr(0, spec.find('+')).substr(kind.size()));
}

Result<UnixWire::Claim> UnixWire::claim(int folder) {
  for (uint32_t slot = 0; slot < slots; slot++) {
    if (Fd lock = try_lock(folder, slot)) {
      (void)!ftruncate(lock.get(), 0);  // the table of who was there before
      return Claim{std::move(lock), slot};
    }
    if (errno == EPERM || errno == ELOOP)
      return Error{errno, "unix: a slot-N in the folder is no file of this user's alone"};
    if (errno != EWOULDBLOCK) return Error{errno, "unix: files cannot be made in the folder"};
  }
  return Error{EBUSY, "unix: all 65536 slots of the folder are taken"};
}

Result<Fd> UnixWire::bound_socket(const Place& place, uint32_t slot) {
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket || !ask_for_senders(socket.get())) return Error{errno, "unix: no socket can be made"};
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
  sockaddr_un a;
  socklen_t bytes = address_of(place.name, slot, a);
  remove_socket(place.folder.get(), slot);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&a), bytes) != 0)
    return Error{errno, "unix: the socket cannot be bound in the folder"};
  return socket;
}

Result<std::unique_ptr<Wire>> UnixWire::create(std::string_view name) {
  std::string folder(name);
  if (folder.size() > longest_folder) {
    return Error{ENAMETOOLONG, "unix: the folder's name is too long for a socket in it"};
  }
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error{errno, "unix: the folder cannot be made"};
  }
  Result<Fd> own = open_own_folder(folder);
  if (!own) return own.error();
  Result<Claim> claimed = claim(own->get());
  if (!claimed) return claimed.error();
  sweep(own->get(), claimed->slot + 1);
  Place place{std::move(folder), *std::move(own)};
  Result<Fd> socket = bound_socket(place, claimed->slot);
  if (!socket) return socket.error();
  return std::unique_ptr<Wire>(
      new UnixWire(std::move(place), *std::move(socket), *std::move(claimed)));
}

UnixWire::UnixWire(Place place, Fd socket, Claim claim)
    : FdWire(std::move(socket), unix_mtu),
      place_(std::move(place)),
      lock_(std::move(claim.lock)),
      slot_(claim.slot),
      end_(claim.slot + 1) {}

UnixWire::~UnixWire() {
  (void)!ftruncate(lock_.get(), 0);
  remove_socket(place_.folder.get(), slot_);
}

std::optional<Mac> UnixWire::mac() const noexcept {
  return mac_of_slot(slot_);
}

// One call writes it: a reader finds the whole of it or nothing.
void UnixWire::publish(const Mac& mac, std::span<const Gid> gids) noexcept {
  TableRow rows[most_rows];
  std::size_t count = std::min(gids.size(), most_rows);
  for (std::size_t i = 0; i < count; i++) rows[i] = {gids[i], mac};
  (void)!ftruncate(lock_.get(), 0);
  (void)!pwrite(lock_.get(), rows, count * sizeof(TableRow), 0);
}

std::optional<Mac> UnixWire::find(const Gid& gid) noexcept {
  for (uint32_t slot = 0; reaches(slot); slot++) {
    if (slot == slot_) continue;
    std::optional<Mac> mac = find_in(place_.folder.get(), slot, gid);
    if (!mac || !lives(slot)) continue;
    place_of(*mac) = {*mac, slot};
    return mac;
  }
  return std::nullopt;
}

// Whether the slot was claimed at some time: those behind it were not either.
bool UnixWire::reaches(uint32_t slot) noexcept {
  if (slot < end_) return true;
  if (slot >= slots || !SlotFile(slot).exists(place_.folder.get())) return false;
  end_ = slot + 1;
  return true;
}

// A killed process leaves its socket and its table, but nobody behind them.
bool UnixWire::lives(uint32_t slot) const noexcept {
  sockaddr_un a;
  socklen_t bytes = address_of(place_.name, slot, a);
  Fd probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return probe && connect(probe.get(), reinterpret_cast<const sockaddr*>(&a), bytes) == 0;
}

UnixWire::Seen& UnixWire::place_of(const Mac& m) noexcept {
  return seen_[(m[2] ^ m[3] ^ m[4] * 7u ^ m[5]) % seen_.size()];
}

FdWire::Put UnixWire::put_to(uint32_t slot, std::span<const std::byte> frame) noexcept {
  sockaddr_un a;
  socklen_t bytes = address_of(place_.name, slot, a);
  ssize_t n = sendto(fd_.get(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                     reinterpret_cast<const sockaddr*>(&a), bytes);
  if (n >= 0) return Put::done;
  return says_busy(errno) ? Put::busy : Put::lost;
}

FdWire::Put UnixWire::put_to_all(std::span<const std::byte> frame) noexcept {
  bool busy = false, done = false;
  for (uint32_t slot = 0; reaches(slot); slot++) {
    if (slot == slot_) continue;
    Put p = put_to(slot, frame);
    busy = busy || p == Put::busy;
    done = done || p == Put::done;
  }
  if (!done) return busy ? Put::busy : Put::done;  // an empty switch takes everything
  return busy ? Put::lost : Put::done;
}

FdWire::Put UnixWire::put(std::span<const std::byte> frame) noexcept {
  Mac to;
  std::memcpy(to.data(), frame.data(), to.size());
  if ((to[0] & 1) != 0) return put_to_all(frame);
  Seen& seen = place_of(to);
  uint32_t slot = static_cast<uint32_t>(to[3]) << 8 | to[4];
  if (seen.mac == to && seen.slot != slots)
    slot = seen.slot;
  else if (to != mac_of_slot(slot))
    return put_to_all(frame);
  if (slot == slot_) return Put::done;
  Put p = put_to(slot, frame);
  if (p == Put::lost) seen = {};
  return p;
}

ssize_t UnixWire::take(std::span<std::byte> into) noexcept {
  sockaddr_un from;
  socklen_t bytes = 0;
  ssize_t n = receive_own(fd_.get(), into, from, bytes);
  if (n < static_cast<ssize_t>(ether_header_bytes)) return n;
  Mac mac;
  std::memcpy(mac.data(), into.data() + mac.size(), mac.size());
  uint32_t slot = slot_of(from, bytes);
  if ((mac[0] & 1) == 0 && slot != slots) place_of(mac) = {mac, slot};
  return n;
}

}  // namespace kilim::vhca
