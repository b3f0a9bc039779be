// SPDX-License-Identifier: BSD-3-Clause
// For the guest: listens by librdmacm on three services and treats requests as test/vhca/cm's
// observer does (kernel_answers.cc). 7471 leaves them open; 7472 rejects them with "no, thanks";
// 7473 accepts them with "welcome" and ends what its peer ends. Usage: cm_listener DEVICE TERMINAL,
// as the guest starts each peer program; it looks at no DEVICE. One thread.
#include <cstdio>
#include <cstring>

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

namespace {

constexpr uint16_t open_port = 7471, rejecting_port = 7472, accepting_port = 7473;

bool listen_on(rdma_event_channel* channel, uint16_t port) {
  rdma_cm_id* id = nullptr;
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  return rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0 &&
         rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any)) == 0 && rdma_listen(id, 16) == 0;
}

bool take(rdma_cm_id* id) {
  ibv_pd* pd = ibv_alloc_pd(id->verbs);
  ibv_cq* cq = ibv_create_cq(id->verbs, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {8, 8, 1, 1, 0};
  attr.qp_type = IBV_QPT_RC;
  if (rdma_create_qp(id, pd, &attr) != 0) return false;
  rdma_conn_param param{};
  param.private_data = "welcome";
  param.private_data_len = 8;
  param.responder_resources = 3;
  param.initiator_depth = 2;
  param.rnr_retry_count = 7;
  return rdma_accept(id, &param) == 0;
}

void handle(const rdma_cm_event& e) {
  const uint16_t port = ntohs(rdma_get_src_port(e.id));
  if (e.event == RDMA_CM_EVENT_DISCONNECTED) rdma_disconnect(e.id);
  if (e.event != RDMA_CM_EVENT_CONNECT_REQUEST) return;
  if (port == rejecting_port) rdma_reject(e.id, "no, thanks", 11);
  if (port == accepting_port && !take(e.id)) std::perror("cm_listener");
}

}  // namespace

int main(int argc, char** argv) {
  std::FILE* out = argc == 3 ? std::fopen(argv[2], "w") : nullptr;
  rdma_event_channel* channel = rdma_create_event_channel();
  if (out == nullptr || channel == nullptr) return 1;
  for (uint16_t port = open_port; port <= accepting_port; port++) {
    if (!listen_on(channel, port)) return 1;
  }
  std::fputs("ok ready\n", out);
  std::fflush(out);
  for (rdma_cm_event* event = nullptr; rdma_get_cm_event(channel, &event) == 0;) {
    const rdma_cm_event copy = *event;
    rdma_ack_cm_event(event);
    handle(copy);
  }
  return 1;
}
