// SPDX-License-Identifier: BSD-3-Clause
// Slots, sockets and addresses of a folder.
#include "vhca/wire/slots.hh"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vhca/core/core_clock.hh"
#include "vhca/wire/own_files.hh"
#include "vhca/wire/residents.hh"

namespace kilim::vhca::wire {

namespace {

// A path of unix(7) has 108 bytes; "/65535" and the end need 7.
constexpr std::size_t longest_folder = sizeof(sockaddr_un::sun_path) - 8;
constexpr uint8_t port_number = 1;  // a slot is one port's alone
constexpr uint64_t flood_look_ns = 1'000'000;

// What a slot's file holds, once for each GID of its port.
struct TableRow {
  Gid gid;
  Mac mac;
};
static_assert(sizeof(TableRow) == 22);
constexpr std::size_t most_rows = 64;

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

// A folder of the root folder is what "$XDG_RUNTIME_DIR/NAME" names where that variable is not set.
// It is used if it is there, and not made.
Status make_folder(const std::string& folder) noexcept {
  const std::size_t name = folder.find_first_not_of('/');
  const std::size_t end = folder.find('/', name == std::string::npos ? 0 : name);
  struct stat st;
  if (folder[0] == '/' &&
      (end == std::string::npos || folder.find_first_not_of('/', end) == std::string::npos) &&
      ::lstat(folder.c_str(), &st) != 0)
    return Error{ENOENT,
                 "no folder is made in the root folder (is a variable such as XDG_RUNTIME_DIR not "
                 "set?); name one below a folder of yours, or what mktemp -d has made"};
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return Error{errno, "the folder cannot be made"};
  return Done{};
}

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

// "service-0000000001061d2f-7": slot 7 has a listener.
struct ServiceFile {
  char name[40];
  ServiceFile(uint64_t service, uint32_t slot) noexcept {
    std::snprintf(name, sizeof(name), "service-%016llx-%u",
                  static_cast<unsigned long long>(service), slot);
  }
};

// The slot that a listener's file or a note is of; count: it is neither.
uint32_t slot_of_name(std::string_view name) noexcept {
  uint32_t slot = Slots::count;
  if (!name.starts_with("service-") && !name.starts_with("note-")) return slot;
  const std::string_view digits = name.substr(name.rfind('-') + 1);
  const auto read = std::from_chars(digits.begin(), digits.end(), slot);
  return read.ec == std::errc{} && read.ptr == digits.end() ? slot : Slots::count;
}

// Removes what slots said of their listeners, and their notes, where `is_gone` says so of a slot.
template <typename IsGone>
void remove_said(int folder, IsGone is_gone) noexcept {
  DIR* names = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (names == nullptr) return;
  while (const dirent* entry = readdir(names)) {
    const uint32_t slot = slot_of_name(entry->d_name);
    if (slot < Slots::count && is_gone(slot)) (void)!unlinkat(folder, entry->d_name, 0);
  }
  closedir(names);
}

// Sockets behind the last slot in use, and what their slots said, belong to no living process.
void sweep(int folder, uint32_t from) noexcept {
  for (uint32_t slot = from; slot < Slots::count && SlotFile(slot).exists(folder); slot++) {
    if (Fd lock = try_lock(folder, slot)) remove_socket(folder, slot);
  }
  remove_said(folder, [&](uint32_t slot) {
    return slot >= from && static_cast<bool>(try_lock(folder, slot));
  });
}

}  // namespace

Mac mac_of_slot(uint32_t slot) noexcept {
  return {0x02,       0x4b, 0x4c, static_cast<uint8_t>(slot >> 8), static_cast<uint8_t>(slot),
          port_number};
}

std::optional<uint32_t> slot_of(const Mac& mac) noexcept {
  const uint32_t slot = static_cast<uint32_t>(mac[3]) << 8 | mac[4];
  return mac == mac_of_slot(slot) ? std::optional(slot) : std::nullopt;
}

Slots::Slots(std::string name, Fd folder, int type) noexcept
    : name_(std::move(name)), folder_(std::move(folder)), type_(type) {}

Slots::~Slots() {
  // Whoever has closed our numbers has given the slot away; what they lead to now is theirs.
  if (!lock_ || !lock_.ours() || !folder_.ours()) return;
  (void)!ftruncate(lock_.get(), 0);
  remove_socket(folder_.get(), own_);
}

void Slots::remove_leftovers(const std::string& folder) {
  if (Result<Fd> own = open_own_folder(folder)) sweep(own->get(), 0);
}

Result<Slots> Slots::claim(std::string_view name, int type) {
  std::string folder(name);
  if (folder.size() > longest_folder)
    return Error{ENAMETOOLONG, "the folder's name is too long for a socket in it"};
  if (Status made = make_folder(folder); !made) return made.error();
  Result<Fd> own = open_own_folder(folder);
  if (!own) return own.error();
  Slots slots(std::move(folder), *std::move(own), type);
  if (Status taken = slots.take_lowest(); !taken) return taken.error();
  sweep(slots.folder_.get(), slots.end_);
  return slots;
}

Status Slots::take_lowest() {
  for (uint32_t slot = 0; slot < count; slot++) {
    if (Fd lock = try_lock(folder_.get(), slot)) {
      (void)!ftruncate(lock.get(), 0);  // the table of who was there before
      remove_said(folder_.get(), [slot](uint32_t other) { return other == slot; });
      lock_ = OwnFd(std::move(lock));
      own_ = slot;
      end_ = slot + 1;
      return Done{};
    }
    if (errno == EPERM || errno == ELOOP)
      return Error{errno, "a slot-N in the folder is no file of this user's alone"};
    if (errno != EWOULDBLOCK) return Error{errno, "files cannot be made in the folder"};
  }
  return Error{EBUSY, "all 65536 slots of the folder are taken"};
}

socklen_t Slots::address(uint32_t slot, sockaddr_un& a) const noexcept {
  a.sun_family = AF_UNIX;
  std::memcpy(a.sun_path, name_.data(), name_.size());
  char* p = a.sun_path + name_.size();
  *p++ = '/';
  p = std::to_chars(p, a.sun_path + sizeof(a.sun_path) - 1, slot).ptr;
  *p = '\0';
  return static_cast<socklen_t>(p + 1 - reinterpret_cast<char*>(&a));
}

uint32_t Slots::of(const sockaddr_un& a, socklen_t bytes) noexcept {
  const char* end = reinterpret_cast<const char*>(&a) + bytes;
  if (bytes <= offsetof(sockaddr_un, sun_path) || bytes > sizeof(a)) return none;
  if (end[-1] == '\0') end--;
  const char* name = end;
  while (name > a.sun_path && name[-1] != '/') name--;
  uint32_t slot = none;
  auto [stop, error] = std::from_chars(name, end, slot);
  return error == std::errc() && stop == end && slot < count ? slot : none;
}

Result<Fd> Slots::bound_socket() const {
  Fd socket(::socket(AF_UNIX, type_ | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return Error{errno, "no socket can be made"};
  sockaddr_un a;
  const socklen_t bytes = address(own_, a);
  remove_socket(folder_.get(), own_);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&a), bytes) != 0)
    return Error{errno, "the socket cannot be bound in the folder"};
  return socket;
}

Fd Slots::connected(uint32_t slot) const noexcept {
  sockaddr_un a;
  const socklen_t bytes = address(slot, a);
  Fd socket(::socket(AF_UNIX, type_ | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket && connect(socket.get(), reinterpret_cast<const sockaddr*>(&a), bytes) != 0) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

// An abstract name, which no file stands for: 64 bits that nobody guesses, then the slot.
bool Slots::name(int socket) const noexcept {
  uint64_t random = 0;
  if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) return false;
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  const int n = std::snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "kilim-%016llx/%u",
                              static_cast<unsigned long long>(random), own_);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
  return bind(socket, reinterpret_cast<const sockaddr*>(&a), bytes) == 0;
}

Mac Slots::mac() const noexcept {
  return mac_of_slot(own_);
}

// One call writes it: a reader finds the whole of it or nothing.
void Slots::publish(const Mac& mac, std::span<const Gid> gids) noexcept {
  port_ = mac;
  TableRow rows[most_rows];
  std::size_t n = std::min(gids.size(), most_rows);
  for (std::size_t i = 0; i < n; i++) rows[i] = {gids[i], mac};
  if (!lock_.ours()) return;
  (void)!ftruncate(lock_.get(), 0);
  (void)!pwrite(lock_.get(), rows, n * sizeof(TableRow), 0);
  const Resident here = resident_here(mac, own_);
  leave_note(resident_note, std::as_bytes(std::span(&here, 1)));
}

// A datagram's socket refuses when it is nobody's. To connect to another kind of socket is news for
// its owner, so of that the file is asked, whose lock is free then.
bool Slots::lives(uint32_t slot) const noexcept {
  if (type_ == SOCK_DGRAM) return static_cast<bool>(connected(slot));
  const Fd fd = open_slot(folder_.get(), slot, O_RDONLY);
  return fd && flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// A killed process leaves its socket and its table, but nobody behind them.
std::optional<Mac> Slots::find(const Gid& gid) noexcept {
  for (uint32_t slot = 0; reaches(slot); slot++) {
    if (slot == own_) continue;
    std::optional<Mac> mac = find_in(folder_.get(), slot, gid);
    if (!mac || !connected(slot)) continue;
    place_of(*mac) = {*mac, slot};
    return mac;
  }
  return std::nullopt;
}

void Slots::serve(uint64_t service, bool on) noexcept {
  const ServiceFile file(service, own_);
  if (!on)
    (void)!unlinkat(folder_.get(), file.name, 0);
  else
    Fd(openat(folder_.get(), file.name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
}

// A killed process leaves its mark, but nobody behind it.
bool Slots::is_served(uint64_t service) noexcept {
  for (uint32_t slot = 0; reaches(slot); slot++) {
    if (slot == own_) continue;
    const ServiceFile file(service, slot);
    if (faccessat(folder_.get(), file.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 && connected(slot))
      return true;
  }
  return false;
}

bool Slots::reaches(uint32_t slot) noexcept {
  if (slot < end_) return true;
  if (slot >= count || !SlotFile(slot).exists(folder_.get())) return false;
  end_ = slot + 1;
  return true;
}

bool Slots::floods_further(uint32_t slot) noexcept {
  const uint64_t now = clock_ns();
  if (now < look_ns_) return false;
  if (reaches(slot)) return true;
  look_ns_ = now + flood_look_ns;
  return false;
}

Slots::Seen& Slots::place_of(const Mac& m) noexcept {
  return seen_[(m[2] ^ m[3] ^ m[4] * 7u ^ m[5]) % seen_.size()];
}

uint32_t Slots::way_of(std::span<const std::byte> frame) noexcept {
  Mac to;
  std::memcpy(to.data(), frame.data(), to.size());
  if ((to[0] & 1) != 0 || to == port_) return all;
  const Seen& seen = place_of(to);
  if (seen.mac == to && seen.slot != none) return seen.slot;
  return slot_of(to).value_or(all);
}

void Slots::learn(std::span<const std::byte> frame, uint32_t slot) noexcept {
  Mac mac;
  std::memcpy(mac.data(), frame.data() + mac.size(), mac.size());
  if ((mac[0] & 1) == 0 && slot != none) place_of(mac) = {mac, slot};
}

void Slots::forget(std::span<const std::byte> frame) noexcept {
  Mac to;
  std::memcpy(to.data(), frame.data(), to.size());
  place_of(to) = {};
}

}  // namespace kilim::vhca::wire
