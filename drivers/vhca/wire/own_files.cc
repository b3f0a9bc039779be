// SPDX-License-Identifier: BSD-3-Clause
// Owners by fstat() and SCM_CREDENTIALS. Sources: open(2), inode(7), unix(7).
#include "vhca/wire/own_files.hh"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kilim::vhca::wire {

namespace {

// Rights that nobody but the owner may have.
constexpr mode_t others = S_IRWXG | S_IRWXO;

}  // namespace

// The sender's real user is what the kernel puts there. Our own is asked for when another one's
// comes: a process that has become another user takes what either sends until then.
bool sent_by_us(const msghdr& message) noexcept {
  const cmsghdr* c = CMSG_FIRSTHDR(&message);
  if (c == nullptr || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) return false;
  ucred who;
  std::memcpy(&who, CMSG_DATA(c), sizeof(who));
  static std::atomic<uid_t> us{static_cast<uid_t>(-1)};  // nobody's number
  if (who.uid == us.load(std::memory_order_relaxed)) return true;
  us.store(::getuid(), std::memory_order_relaxed);
  return who.uid == us.load(std::memory_order_relaxed);
}

Result<Fd> open_own_folder(const std::string& folder) {
  Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st;
  if (!fd && errno == ENOTDIR)
    return Error{ENOTDIR, "the name is a link's or a file's, a folder is needed"};
  if (!fd || ::fstat(fd.get(), &st) != 0) return Error{errno, "the folder cannot be opened"};
  if (st.st_uid != ::geteuid())
    return Error{EACCES, "the folder belongs to another user, one of your own is needed"};
  if ((st.st_mode & others) != 0)
    return Error{EACCES,
                 "others may enter the folder; name one that is yours alone, such as a new name "
                 "under $XDG_RUNTIME_DIR or what mktemp -d has made"};
  return fd;
}

Status check_folder_of(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  if (slash == std::string_view::npos) file = ".";
  // A socket in the root folder has an empty name before its slash.
  else
    file = file.substr(0, slash == 0 ? 1 : slash);
  Result<Fd> folder = open_own_folder(std::string(file));
  if (!folder) return folder.error();
  return Done{};
}

bool is_own_file(int fd) noexcept {
  struct stat st;
  return ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == ::geteuid() &&
         st.st_nlink == 1;
}

bool ask_for_senders(int socket) noexcept {
  const int on = 1;
  return ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0;
}

ssize_t receive_own(int socket, std::span<std::byte> into, sockaddr_un& from,
                    socklen_t& from_bytes) noexcept {
  // No room for more than the sender: descriptors that somebody sends along are closed.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  iovec piece{into.data(), into.size()};
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof(from);
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const bool own = n < 0 || sent_by_us(message);
  from_bytes = own ? message.msg_namelen : 0;
  return own ? n : 0;
}

}  // namespace kilim::vhca::wire
