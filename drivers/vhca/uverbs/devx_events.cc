// SPDX-License-Identifier: BSD-3-Clause
// Event files of DevX clients and who has subscribed to what: Linux
// drivers/infiniband/hw/mlx5/devx.c (MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC,
// MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT, dispatch_event_fd()). Adapter's lock held.
#include "vhca/uverbs/devx_events.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"
#include "vhca/core/refusal.hh"
#include "vhca/uverbs/bundle.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint16_t most_types = 32;  // of one subscription call (MAX_NUM_EVENTS)

int make_file(Context& context, Bundle& b, EventFile::Kind kind, uint16_t handle_id) {
  if (!context.devx)
    return refusal::lacks(
        "a firmware command, for which this context was not opened (mlx5dv_open_device() with "
        "MLX5DV_CONTEXT_FLAGS_DEVX),",
        EINVAL);
  const int fd = context.make_event_file(kind);
  if (fd < 0) return fd;
  Fd client{fd};
  const int err = b.give(handle_id, static_cast<uint64_t>(fd));
  if (err == 0) client.release();
  return err;
}

int make_command_file(Context& context, Bundle& b) {
  return make_file(context, b, EventFile::Kind::devx_command,
                   MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE);
}

int alloc_event_file(Context& context, Bundle& b) {
  constexpr uint64_t bare = MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA;
  const uint64_t flags = b.value(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS);
  if ((flags & ~bare) != 0) return refusal::bits("flags", flags, bare);
  return make_file(context, b,
                   flags != 0 ? EventFile::Kind::devx_bare : EventFile::Kind::devx_event,
                   MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE);
}

EventFile* find_file(const Context& context, int64_t fd) {
  EventFile* file = context.event_file(EventFile::Kind::devx_event, fd);
  return file != nullptr ? file : context.event_file(EventFile::Kind::devx_bare, fd);
}

// A descriptor of our own of the client's eventfd(2). Nothing: it is none.
Fd take_eventfd(int fd) {
  char path[32], target[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t n = ::readlink(path, target, sizeof target - 1);
  if (n <= 0 || std::strncmp(target, "anon_inode:[eventfd]", static_cast<std::size_t>(n)) != 0)
    return {};
  return Fd{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
}

int subscribe(Context& context, Bundle& b) {
  if (!context.devx)
    return refusal::lacks(
        "a firmware command, for which this context was not opened (mlx5dv_open_device() with "
        "MLX5DV_CONTEXT_FLAGS_DEVX),",
        EINVAL);
  EventFile* file = find_file(context, b.fd(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE));
  if (file == nullptr)
    return refusal::descriptor("the event channel",
                               b.fd(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE));
  const bool affiliated = b.has(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE);
  const Object* object =
      affiliated ? b.any_object(context, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE) : nullptr;
  if (affiliated && (object == nullptr || object->kind != Kind::devx_obj))
    return refusal::absent("the DevX object", object != nullptr ? object->handle : 0);
  const InBuffer list = b.in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST);
  uint16_t types[most_types];
  const std::size_t count = list.bytes() / sizeof(uint16_t);
  if (count == 0 || count > most_types || list.bytes() % sizeof(uint16_t) != 0)
    return refusal::range("the number of event types", count, 1, most_types);
  if (int err = list.read(types, list.bytes()); err != 0) return err;
  const bool redirects = b.has(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM);
  for (std::size_t i = 0; i < count; i++) {
    Context::Subscription s{file, object, types[i],
                            b.value(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE), Fd{}};
    if (redirects) {
      const uint64_t fd = b.value(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM);
      s.eventfd = take_eventfd(static_cast<int>(fd));
      if (!s.eventfd) return refusal::descriptor("the eventfd", fd, EINVAL);
    }
    if (int err = context.subscribe(std::move(s)); err != 0) return err;
  }
  return 0;
}

constexpr AttrRule command_file_rules[] = {
    {MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE, AttrKind::fresh, true},
};
constexpr AttrRule event_file_rules[] = {
    {MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE, AttrKind::fresh, true},
    {MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, AttrKind::in, true, 4, 8},
};
constexpr AttrRule subscribe_rules[] = {
    {MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, AttrKind::fd, true},
    {MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, AttrKind::any_object, false},
    {MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, AttrKind::in, true, 2, 2 * most_types},
    {MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, AttrKind::in, false, 8, 8},
    {MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM, AttrKind::in, false, 4, 4},
};
constexpr Method devx_event_table[] = {
    {MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD, MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC, WhenDead::runs,
     make_command_file, command_file_rules},  // no command (devx.c)
    {MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC, WhenDead::runs,
     alloc_event_file, event_file_rules},  // no command
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT, WhenDead::runs, subscribe,
     subscribe_rules},  // no command
};

// PRM: "Event Queue Entry": its type and its data.
struct Entry {
  uint64_t cookie = 0;
  uint8_t reserved = 0, type = 0, more[30]{};
  be32 data[7]{};
  uint8_t owner[4]{};
};
static_assert(sizeof(Entry) == 72);

// What kind of queue an event is about (Linux include/linux/mlx5/device.h,
// MLX5_EVENT_QUEUE_TYPE_*); a shared one's is that of queue pairs.
uint32_t queue_type(uint16_t created_by) noexcept {
  constexpr uint32_t qp = 0, rq = 1, sq = 2, dct = 6;
  switch (created_by) {
    case prm::cmd::create_rq:
      return rq;
    case prm::cmd::create_sq:
      return sq;
    case prm::cmd::create_dct:
      return dct;
    default:
      return qp;
  }
}

// Linux include/linux/mlx5/device.h: struct mlx5_eqe_comp, mlx5_eqe_cq_err, mlx5_eqe_qp_srq. The
// syndromes of the second are those of mlx4's (drivers/net/ethernet/mellanox/mlx4/eq.c).
void fill_data(Entry& entry, const hca::Hca& h, const DevxObject& object) noexcept {
  constexpr uint32_t overrun = 1, access_violation = 2, type_shift = 24;
  if (entry.type == devx_event::completion) {
    entry.data[6] = be32{object.number};
  } else if (entry.type == devx_event::cq_error) {
    const wq::Cq* cq = h.cqs.at(object.number);
    entry.data[0] = be32{object.number};
    entry.data[2] = be32{cq != nullptr && cq->overran ? overrun : access_violation};
  } else {
    entry.data[5] = be32{queue_type(object.created_by) << type_shift};
    entry.data[6] = be32{object.number};
  }
}

}  // namespace

std::span<const Method> devx_event_methods() {
  return devx_event_table;
}

// A second subscription to the same is one (subscribe_event_xa_alloc()), with the newer cookie.
int Context::subscribe(Subscription s) {
  if (int err = s.file->hold(); err != 0) return err;
  subscriptions_.push_back(std::move(s));
  return 0;
}

void Context::post_devx_event(const DevxObject& object, uint8_t type) noexcept {
  for (const Subscription& s : subscriptions_) {
    if (s.object != &object || s.type != type) continue;
    Entry entry{};
    entry.cookie = s.cookie;
    entry.type = type;
    fill_data(entry, hca, object);
    const uint64_t one = 1;
    if (s.eventfd)
      (void)syscall(SYS_write, s.eventfd.get(), &one, sizeof one);
    else
      (void)s.file->post(&entry, s.file->kind() == EventFile::Kind::devx_bare ? sizeof entry.cookie
                                                                              : sizeof entry);
  }
}

void Context::forget_subscriptions(const Object& object) noexcept {
  std::erase_if(subscriptions_, [&](const Subscription& s) {
    if (s.object != &object) return false;
    s.file->let_go();
    return true;
  });
}

}  // namespace kilim::vhca::uverbs
