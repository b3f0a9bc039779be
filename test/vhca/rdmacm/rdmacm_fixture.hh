// SPDX-License-Identifier: BSD-3-Clause
// A client of rdma_cm as librdmacm is one: commands by write, events by reading them. The adapters
// live as long as the test: rdma_cm keeps them. Owner: one test case.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <sys/mman.h>

#include "ut.hh"
#include "vhca/core/port_ip.hh"
#include "vhca/hca/hca.hh"
#include "vhca/memory/dma_guard.hh"
#include "vhca/rdmacm/cm_file.hh"
#include "vhca/rdmacm/sockaddr.hh"
#include "vhca/rdmacm/state.hh"
#include "vhca/wire/cable.hh"

namespace kilim::vhca::test {

using rdmacm::EventType;

// The loopback adapter, 127.0.0.1 and ::1; one on a cable that nobody else is on, 10.9.0.1/24.
inline hca::Hca& adapter(bool wired = false) {
  static hca::Hca* both[2] = {};
  if (both[wired] == nullptr) {
    CU_ASSERT_FATAL(memory::dma::install());
    hca::HcaConfig config;
    config.name = wired ? "cm1" : "cm0";
    config.mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(wired ? 9 : 1)};
    config.ips = {*parse_port_ip(wired ? "10.9.0.1/24" : "127.0.0.1/8")};
    if (!wired) config.ips.push_back(*parse_port_ip("::1/128"));
    if (wired) config.wires.push_back(*wire::Cable::create("rdmacm-test"));
    both[wired] = hca::Hca::create(std::move(config))->release();
    rdmacm::add_adapter(*both[wired]);
  }
  return *both[wired];
}

// Turns of the engines until nothing is left to do.
inline void turns(int count = 100) {
  for (int i = 0; i < count; i++) {
    for (bool wired : {false, true}) {
      const LockGuard guard(adapter(wired).lock);
      adapter(wired).run(64);
    }
  }
}

inline sockaddr_storage ip(const char* text, uint16_t port = 0) {
  sockaddr_storage a{};
  auto& four = reinterpret_cast<sockaddr_in&>(a);
  auto& six = reinterpret_cast<sockaddr_in6&>(a);
  if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
    a.ss_family = AF_INET;
  } else {
    a.ss_family = AF_INET6;
    CU_ASSERT_FATAL(inet_pton(AF_INET6, text, &six.sin6_addr) == 1);
  }
  four.sin_port = htons(port);
  return a;
}

class Channel {
 public:
  Channel() {
    adapter();
    adapter(true);
    auto made = rdmacm::CmFile::create(true, fd);
    CU_ASSERT_FATAL(made.ok());
    file = std::move(*made);
    CU_ASSERT(::fcntl(fd.get(), F_SETFL, O_NONBLOCK) == 0);
  }

  ssize_t raw(const void* bytes, std::size_t count, rdmacm::CmFile* other = nullptr) {
    return file->write(bytes, count, {&find, other});
  }
  // A command and its answer. `in`, `out`: what the header says of both.
  template <typename Cmd>
  int send(uint32_t command, const Cmd& cmd, std::size_t out = 0, std::size_t in = sizeof(Cmd),
           rdmacm::CmFile* other = nullptr) {
    struct {
      rdma_ucm_cmd_hdr hdr;
      alignas(8) unsigned char bytes[sizeof(Cmd)];
    } m{{command, static_cast<__u16>(in), static_cast<__u16>(out)}, {}};
    std::memcpy(m.bytes, &cmd, sizeof(cmd));
    static_assert(offsetof(decltype(m), bytes) == sizeof(m.hdr));
    const ssize_t n = raw(&m, sizeof(m.hdr) + in, other);
    return n < 0 ? static_cast<int>(n) : n == static_cast<ssize_t>(sizeof(m.hdr) + in) ? 0 : 1;
  }

  int create(uint64_t uid, uint16_t space, uint8_t type, uint32_t& id) {
    rdma_ucm_create_id cmd{};
    rdma_ucm_create_id_resp resp{};
    cmd.uid = uid;
    cmd.response = reinterpret_cast<uint64_t>(&resp);
    cmd.ps = space;
    cmd.qp_type = type;
    const int error = send(RDMA_USER_CM_CMD_CREATE_ID, cmd, sizeof(resp));
    id = resp.id;
    return error;
  }
  // One that has to be.
  uint32_t make(uint16_t space = RDMA_PS_TCP, uint64_t uid = 7) {
    uint32_t id = 0;
    EQUAL_FATAL(create(uid, space, 2, id), 0);
    return id;
  }
  int destroy(uint32_t id, uint32_t* reported = nullptr) {
    rdma_ucm_destroy_id cmd{};
    rdma_ucm_destroy_id_resp resp{};
    cmd.id = id;
    cmd.response = reinterpret_cast<uint64_t>(&resp);
    const int error = send(RDMA_USER_CM_CMD_DESTROY_ID, cmd, sizeof(resp));
    if (reported != nullptr) *reported = resp.events_reported;
    return error;
  }
  int bind(uint32_t id, const sockaddr_storage& a) {
    rdma_ucm_bind cmd{};
    cmd.id = id;
    cmd.addr_size = static_cast<__u16>(rdmacm::address_bytes(a));
    if (cmd.addr_size == 0) cmd.addr_size = sizeof(sockaddr_in);
    std::memcpy(&cmd.addr, &a, sizeof(a));
    return send(RDMA_USER_CM_CMD_BIND, cmd);
  }
  int resolve(uint32_t id, const sockaddr_storage& to, uint32_t timeout_ms = 2000) {
    rdma_ucm_resolve_addr cmd{};
    cmd.id = id;
    cmd.timeout_ms = timeout_ms;
    cmd.dst_size = static_cast<__u16>(rdmacm::address_bytes(to));
    std::memcpy(&cmd.dst_addr, &to, sizeof(to));
    return send(RDMA_USER_CM_CMD_RESOLVE_ADDR, cmd);
  }
  int route(uint32_t id, uint32_t timeout_ms = 2000) {
    return send(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, timeout_ms});
  }
  int listen(uint32_t id, uint32_t backlog = 0) {
    return send(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, backlog});
  }
  int option(uint32_t id, uint32_t level, uint32_t name, const void* value, uint32_t bytes) {
    const rdma_ucm_set_option cmd{reinterpret_cast<uint64_t>(value), id, level, name, bytes};
    return send(RDMA_USER_CM_CMD_SET_OPTION, cmd);
  }
  int connect(uint32_t id, const char* data = "", uint32_t qpn = 0x1234) {
    rdma_ucm_connect cmd{};
    cmd.id = id;
    fill(cmd.conn_param, data, qpn);
    return send(RDMA_USER_CM_CMD_CONNECT, cmd);
  }
  int accept(uint32_t id, uint64_t uid, bool with_param = true) {
    rdma_ucm_accept cmd{};
    cmd.id = id;
    cmd.uid = uid;
    if (with_param) fill(cmd.conn_param, "welcome", 0x4321);
    return send(RDMA_USER_CM_CMD_ACCEPT, cmd);
  }
  // -EAGAIN: none.
  int event(rdma_ucm_event_resp& resp) {
    const rdma_ucm_get_event cmd{reinterpret_cast<uint64_t>(&resp)};
    return send(RDMA_USER_CM_CMD_GET_EVENT, cmd, sizeof(resp));
  }
  // The next one, after some turns; its type, or a negative errno.
  int next(rdma_ucm_event_resp& resp) {
    turns();
    const int error = event(resp);
    return error != 0 ? error : static_cast<int>(resp.event);
  }
  [[nodiscard]] bool readable() const {
    pollfd p{fd.get(), POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
  }

  static void fill(rdma_ucm_conn_param& p, const char* data, uint32_t qpn) {
    p.valid = 1;
    p.qp_num = qpn;
    p.responder_resources = p.initiator_depth = 4;
    p.retry_count = 7;
    p.private_data_len = static_cast<__u8>(std::strlen(data));
    std::memcpy(p.private_data, data, p.private_data_len);
  }
  static rdmacm::CmFile* find(void* context, int) noexcept {
    return static_cast<rdmacm::CmFile*>(context);
  }

  Fd fd;
  std::unique_ptr<rdmacm::CmFile> file;
};

inline int number(EventType type) {
  return static_cast<int>(type);
}

}  // namespace kilim::vhca::test
