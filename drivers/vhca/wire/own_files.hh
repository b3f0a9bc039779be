// SPDX-License-Identifier: BSD-3-Clause
// Whether a folder, a file, the sender of a datagram are this user's alone. Wires that meet in a
// folder ask before they write there or believe what lies there: in a folder that others may write,
// a link leads anywhere and a socket may be anybody's. Values; any thread; control path but for
// receive_own().
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"

namespace kilim::vhca::wire {

// Opens a folder that belongs to this user and that nobody else may enter (mode 0700): what is
// named by the descriptor is this folder's, whoever renames what on the way to it. ENOENT: none;
// EACCES: others may enter it, or own it; ENOTDIR: a link, or no folder.
Result<Fd> open_own_folder(const std::string& folder);
// The same of the folder in which a file of this name lies.
Status check_folder_of(std::string_view file);

// A regular file of this user with one name: not a link to what belongs elsewhere.
bool is_own_file(int fd) noexcept;

// The kernel tells of each datagram that comes from now on who sent it (unix(7), SO_PASSCRED). The
// user is named as our own user namespace sees him, so one user in two namespaces stays himself.
bool ask_for_senders(int socket) noexcept;
// Whether the kernel says so of a message that was received with room for it.
bool sent_by_us(const msghdr& message) noexcept;
// The next datagram, without waiting. Bytes; negative: none, as errno says. Where another user sent
// it, there are no bytes and no name. Descriptors that come with it are not taken.
ssize_t receive_own(int socket, std::span<std::byte> into, sockaddr_un& from,
                    socklen_t& from_bytes) noexcept;

}  // namespace kilim::vhca::wire
