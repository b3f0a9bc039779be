// SPDX-License-Identifier: BSD-3-Clause
// What no program of others tries of rdma_cm. `cm_life ADDRESS` listens: a forked child has none of
// its parent's ids and may have its own, and a client that is gone is missed. `cm_life ADDRESS
// client` connects with options that its queue pair then has, and goes without a word.
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char* what) {
  perror(what);
  return 1;
}

static struct ibv_qp_init_attr rc(void) {
  const struct ibv_qp_init_attr attr = {
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  return attr;
}

// 0: as it has to be.
static int in_child(struct rdma_cm_id* of_parent, struct sockaddr* address) {
  struct rdma_cm_id* id;
  errno = 0;
  if (rdma_create_id(of_parent->channel, &id, NULL, RDMA_PS_TCP) == 0 || errno != EIO) return 1;
  errno = 0;
  if (rdma_listen(of_parent, 1) == 0 || errno != EIO) return 2;
  if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0) return 3;
  if (rdma_bind_addr(id, address) != 0) return 4;
  return rdma_destroy_id(id) == 0 ? 0 : 5;
}

static int serve(struct rdma_addrinfo* at) {
  struct ibv_qp_init_attr attr = rc();
  struct rdma_cm_id *listener, *id;
  if (rdma_create_ep(&listener, at, NULL, &attr) != 0) return fail("rdma_create_ep");
  if (rdma_listen(listener, 1) != 0) return fail("rdma_listen");
  const pid_t child = fork();
  if (child == 0) _exit(in_child(listener, &listener->route.addr.src_addr));
  int status = -1;
  if (waitpid(child, &status, 0) != child) return fail("waitpid");
  printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  fflush(stdout);
  if (rdma_get_request(listener, &id) != 0) return fail("rdma_get_request");
  if (rdma_accept(id, NULL) != 0) return fail("rdma_accept");
  // The end of a child parts from nobody.
  const pid_t other = fork();
  if (other == 0) _exit(0);
  if (waitpid(other, &status, 0) != other) return fail("waitpid");
  struct pollfd news = {.fd = id->channel->fd, .events = POLLIN};
  printf("news %d\n", poll(&news, 1, 300));
  struct rdma_cm_event* event;
  if (rdma_get_cm_event(id->channel, &event) != 0) return fail("rdma_get_cm_event");
  printf("%s\n", rdma_event_str(event->event));
  rdma_ack_cm_event(event);
  rdma_disconnect(id);
  rdma_destroy_ep(id);
  rdma_destroy_ep(listener);
  return 0;
}

static int ask(struct rdma_addrinfo* to) {
  struct rdma_cm_id* id;
  uint8_t tos = 0x68, ack_timeout = 9;
  if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0) return fail("rdma_create_id");
  if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1) != 0 ||
      rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout, 1) != 0)
    return fail("rdma_set_option");
  if (rdma_resolve_addr(id, NULL, to->ai_dst_addr, 2000) != 0) return fail("rdma_resolve_addr");
  if (rdma_resolve_route(id, 2000) != 0) return fail("rdma_resolve_route");
  struct ibv_qp_init_attr attr = rc();
  if (rdma_create_qp(id, NULL, &attr) != 0) return fail("rdma_create_qp");
  if (rdma_connect(id, NULL) != 0) return fail("rdma_connect");
  struct ibv_qp_attr now;
  if (ibv_query_qp(id->qp, &now, IBV_QP_TIMEOUT | IBV_QP_AV, &attr) != 0)
    return fail("ibv_query_qp");
  printf("tos 0x%x ack timeout %d\n", now.ah_attr.grh.traffic_class, now.timeout);
  fflush(stdout);
  sleep(1);
  _exit(0);
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  struct rdma_addrinfo hints, *found;
  memset(&hints, 0, sizeof hints);
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = argc == 2 ? RAI_PASSIVE : 0;
  if (rdma_getaddrinfo(argv[1], "7482", &hints, &found) != 0) return fail("rdma_getaddrinfo");
  return argc == 2 ? serve(found) : ask(found);
}
