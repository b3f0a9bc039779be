// SPDX-License-Identifier: BSD-3-Clause
// The queue of an open: ucma.c, ucma_create_uevent(), ucma_get_event(). State's lock held. The
// descriptor is readable while something is in the queue: one byte lies there.
#include <cerrno>
#include <cstring>

#include "vhca/core/refusal.hh"
#include "vhca/rdmacm/call.hh"
#include "vhca/rdmacm/state.hh"

namespace kilim::vhca::rdmacm {

// Bytes go one at a time, so none can be refused for want of room.
void update_signal(File& file) noexcept {
  if (!file.events.empty() && !file.signalled) {
    constexpr char byte = 1;
    file.signalled = ::send(file.signal.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
  }
}

namespace {

// rdma_user_cm.h of Linux 6.17, struct rdma_ucm_write_cm_event
struct WriteEvent {
  uint32_t id, reserved, event, status;
  union {
    rdma_ucm_conn_param conn;
    rdma_ucm_ud_param ud;
    uint64_t arg;
  } param;
};

}  // namespace

void post(const Event& event) {
  File& file = *event.id->file;
  file.events.push_back(event);
  update_signal(file);
}

// ucma_event_handler(): nothing is told of a request before it has been accepted.
void post(State&, Id& id, EventType type, int status) {
  if (id.uid == 0) return;
  Event event;
  event.id = &id;
  event.resp.uid = id.uid;
  event.resp.id = id.number;
  event.resp.event = static_cast<uint32_t>(type);
  event.resp.status = static_cast<uint32_t>(status);
  post(event);
}

int write_event(Call& c) {
  WriteEvent cmd;
  if (int error = c.read(cmd); error != 0) return error;
  if (cmd.event != static_cast<uint32_t>(EventType::user) &&
      cmd.event != static_cast<uint32_t>(EventType::internal))
    return refusal::range("event", cmd.event, static_cast<uint64_t>(EventType::user),
                          static_cast<uint64_t>(EventType::internal));
  int error = 0;
  Id* id = find_id(c.s, c.file, cmd.id, error);
  if (id == nullptr) return error;
  Event event;
  event.id = id;
  event.resp.uid = id->uid;
  event.resp.id = id->number;
  event.resp.event = cmd.event;
  event.resp.status = cmd.status;
  std::memcpy(&event.resp.param, &cmd.param.arg, sizeof(cmd.param.arg));
  post(event);
  return 0;
}

}  // namespace kilim::vhca::rdmacm
