// SPDX-License-Identifier: BSD-3-Clause
// XRC domains, alone or shared by a file, and membership of multicast groups. Adapter's lock held.
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/ports.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

int XrcdObject::release(Context& context) {
  return hca::close_xrcd(context.hca, xrcd);
}

int cmd_open_xrcd(Context& context, const Request& r) {
  ib_uverbs_open_xrcd cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  constexpr uint32_t no_file = ~0u;
  XrcdSpec spec;
  if (cmd.fd != no_file) {
    struct stat st {};
    if (syscall(SYS_fstat, static_cast<int>(cmd.fd), &st) != 0)
      return refusal::descriptor("fd, the file of the domain,", cmd.fd);
    spec = {true, st.st_dev, st.st_ino, (cmd.oflags & O_CREAT) != 0, (cmd.oflags & O_EXCL) != 0};
  }
  Result<uint32_t> xrcd = hca::open_xrcd(context.hca, spec);
  if (!xrcd) return refusal::of(xrcd.error());
  auto made = std::make_unique<XrcdObject>();
  made->xrcd = *xrcd;
  XrcdObject& object = *made;
  context.add(std::move(made), {});
  return context.keep_unless(r.out.write(&object.handle, sizeof object.handle), object);
}

int cmd_close_xrcd(Context& context, const Request& r) {
  ib_uverbs_close_xrcd cmd;
  int err = r.in.read(cmd);
  return err != 0 ? err : destroy_handle<XrcdObject>(context, cmd.xrcd_handle);
}

int cmd_attach_mcast(Context& context, const Request& r) {
  ib_uverbs_attach_mcast cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  const auto* qp = context.find<QpObject>(cmd.qp_handle);
  if (qp == nullptr) return refusal::absent("qp_handle", cmd.qp_handle);
  Gid gid;
  std::memcpy(gid.data(), cmd.gid, gid.size());
  return hca::join_group(context.hca, qp->qpn, gid);
}

int cmd_detach_mcast(Context& context, const Request& r) {
  ib_uverbs_detach_mcast cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  const auto* qp = context.find<QpObject>(cmd.qp_handle);
  if (qp == nullptr) return refusal::absent("qp_handle", cmd.qp_handle);
  Gid gid;
  std::memcpy(gid.data(), cmd.gid, gid.size());
  return hca::leave_group(context.hca, qp->qpn, gid);
}

}  // namespace kilim::vhca::uverbs
