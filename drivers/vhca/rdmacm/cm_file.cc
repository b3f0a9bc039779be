// SPDX-License-Identifier: BSD-3-Clause
// An open and its writes: ucma.c, ucma_open(), ucma_write(), ucma_close(); waiting for events.
#include "vhca/rdmacm/cm_file.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/memory/dma.hh"
#include "vhca/rdmacm/call.hh"

namespace kilim::vhca::rdmacm {

namespace {

// The byte goes with the last event.
void settle(File& file) noexcept {
  char byte = 0;
  if (file.events.empty() && file.signalled)
    file.signalled = ::recv(file.client.get(), &byte, 1, MSG_DONTWAIT) != 1;
  update_signal(file);
}

struct Header {
  rdma_ucm_cmd_hdr hdr;
  uint64_t at;
};

// ucma_write()
int read_header(const void* buffer, std::size_t count, Header& h) noexcept {
  h.at = reinterpret_cast<uint64_t>(buffer);
  if (count < sizeof(h.hdr)) return refusal::bytes("the command", count, sizeof(h.hdr));
  if (!memory::dma::copy_in(&h.hdr, Va{h.at}, sizeof(h.hdr))) return refusal::fault(h.at);
  if (h.hdr.cmd >= command_count) return refusal::most("the command", h.hdr.cmd, command_count - 1);
  if (h.hdr.in + sizeof(h.hdr) > count)
    return refusal::bytes("the command", count, h.hdr.in + sizeof(h.hdr));
  h.at += sizeof(h.hdr);
  if (h.hdr.cmd == RDMA_USER_CM_CMD_MIGRATE_ID) return 0;
  return command_of(h.hdr.cmd) == nullptr ? refusal::absent("the command", h.hdr.cmd, ENOSYS) : 0;
}

// By number.
const char* name_of(uint32_t command) noexcept {
  constexpr const char* names[] = {
      "rdma_create_id",      "rdma_destroy_id",      "rdma_bind_addr",     "rdma_resolve_addr",
      "rdma_resolve_route",  "rdma_query_route",     "rdma_connect",       "rdma_listen",
      "rdma_accept",         "rdma_reject",          "rdma_disconnect",    "rdma_init_qp_attr",
      "rdma_get_cm_event",   "rdma_get_option",      "rdma_set_option",    "rdma_notify",
      "rdma_join_multicast", "rdma_leave_multicast", "rdma_migrate_id",    "rdma_query_addr",
      "rdma_bind_addr",      "rdma_resolve_addr",    "rdma_join_multicast"};
  return command < std::size(names)      ? names[command]
         : command == write_event_number ? "rdma_write_cm_event"
                                         : "a command of rdma_cm";
}

// All locks held. The newest adapter tells what none is named by.
void tell(uint32_t command, int error) noexcept {
  if (error != 0 && first_adapter() != nullptr)
    hca::tell_refusal(first_adapter()->hca, name_of(command), error);
}

// Whether a command may leave more behind than it found.
bool makes(uint32_t command) noexcept {
  return command != RDMA_USER_CM_CMD_DESTROY_ID && command != RDMA_USER_CM_CMD_LEAVE_MCAST &&
         command != RDMA_USER_CM_CMD_DISCONNECT && command != RDMA_USER_CM_CMD_GET_EVENT;
}

int run(File& file, const Header& h) {
  Locked state;
  if (file.disowned) return -EIO;
  Call call{*state, file, h.at, h.hdr.in, h.hdr.out};
  refusal::forget();
  const int error = command_of(h.hdr.cmd)(call);
  tell(h.hdr.cmd, error);
  settle(file);
  return error;
}

int run_migrate(File& file, const Header& h, File* from) {
  Locked state;
  if (file.disowned) return -EIO;
  if (from == nullptr) return refusal::text(EINVAL, "the old channel's descriptor is none");
  Call call{*state, file, h.at, h.hdr.in, h.hdr.out};
  const int error = migrate(call, *from);
  settle(file);
  settle(*from);
  return error;
}

// Until something may be there; as a read of the descriptor, it goes on behind a signal whose
// handler says so (SA_RESTART), and does not wait with O_NONBLOCK.
int wait_for_event(const File& file) noexcept {
  char byte = 0;
  const ssize_t n = ::recv(file.client.get(), &byte, 1, MSG_PEEK);
  return n == 1 ? 0 : n == 0 ? -EIO : -errno;
}

}  // namespace

CmFile::CmFile(std::unique_ptr<File> file) : file_(std::move(file)) {}

CmFile::~CmFile() {
  Locked state;
  if (!file_->disowned) destroy_all(*state, *file_);
}

Result<std::unique_ptr<CmFile>> CmFile::create(bool close_on_exec, Fd& client_fd) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error{errno, "no descriptor for events"};
  client_fd = Fd{ends[0]};
  auto file = std::make_unique<File>();
  file->signal = Fd{ends[1]};
  file->client = Fd{::fcntl(ends[0], F_DUPFD_CLOEXEC, 0)};
  if (!file->client) return Error{errno, "no descriptor for events"};
  if (!close_on_exec && ::fcntl(ends[0], F_SETFD, 0) != 0)
    return Error{errno, "no descriptor for events"};
  return std::unique_ptr<CmFile>(new CmFile(std::move(file)));
}

int CmFile::own_descriptor() const noexcept {
  return file_->client.get();
}

ssize_t CmFile::write(const void* buffer, std::size_t count, const Finder& finder) {
  const memory_reserve::Scope scope;
  Header h;
  if (file_->disowned) return -EIO;
  refusal::forget();
  if (int error = read_header(buffer, count, h); error != 0) {
    Locked state;
    tell(command_count, error);
    return error;
  }
  if (!memory_reserve::fill() && makes(h.hdr.cmd)) return refusal::full("this process's memory");
  int error = 0;
  if (h.hdr.cmd == RDMA_USER_CM_CMD_MIGRATE_ID) {
    rdma_ucm_migrate_id cmd;
    if (!memory::dma::copy_in(&cmd, Va{h.at}, sizeof(cmd))) return refusal::fault(h.at);
    const int from_fd = static_cast<int>(cmd.fd);
    if (::fcntl(from_fd, F_GETFD) < 0)
      return refusal::descriptor("the old channel", cmd.fd, ENOENT);
    CmFile* from = finder.find(finder.context, from_fd);
    error = run_migrate(*file_, h, from != nullptr ? from->file_.get() : nullptr);
  } else {
    error = run(*file_, h);
  }
  while (error == -EAGAIN && h.hdr.cmd == RDMA_USER_CM_CMD_GET_EVENT) {
    if (int waited = wait_for_event(*file_); waited != 0) return waited;
    error = run(*file_, h);
  }
  return error == 0 ? static_cast<ssize_t>(count) : error;
}

// The other end stays: who polls the descriptor is not woken by its going.
void CmFile::disown_after_fork() noexcept {
  file_->disowned = true;
}

}  // namespace kilim::vhca::rdmacm
