// SPDX-License-Identifier: BSD-3-Clause
// The queue of an open: ucma.c, ucma_create_uevent(), ucma_get_event(). State's lock held. The
// descriptor is readable while something is in the queue: one byte lies there.
#include <cerrno>

#include "vhca/rdmacm/state.hh"

namespace kilim::vhca::rdmacm {

// Bytes go one at a time, so none can be refused for want of room.
void update_signal(File& file) noexcept {
  if (!file.events.empty() && !file.signalled) {
    constexpr char byte = 1;
    file.signalled = ::send(file.signal.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
  }
}

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

}  // namespace kilim::vhca::rdmacm
