// SPDX-License-Identifier: BSD-3-Clause
// Remote memory by librpma: `rpma ADDRESS` lends a page and looks at it when its client has gone,
// `rpma ADDRESS client` writes the page, flushes it to where the server sees it and reads it back.
// librpma's flush is a READ behind the WRITE.
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { page = 4096 };
static const char port[] = "7483";

// Whatever it is that failed, nothing can go on without it.
static void must(int result, const char* what) {
  if (result == 0) return;
  fprintf(stderr, "%s: %s\n", what, rpma_err_2str(result));
  exit(1);
}
#define KILIM_MUST(call) must(call, #call)

static unsigned char* memory(void) {
  void* p = NULL;
  if (posix_memalign(&p, page, page) != 0) exit(1);
  memset(p, 0, page);
  return p;
}
static int is_ours(const unsigned char* p) {
  for (int i = 0; i < page; i++)
    if (p[i] != (unsigned char)(i * 7 + 1)) return 0;
  return 1;
}
static struct rpma_peer* peer_at(const char* address, enum rpma_util_ibv_context_type type) {
  struct ibv_context* context;
  struct rpma_peer* peer;
  KILIM_MUST(rpma_utils_get_ibv_context(address, type, &context));
  KILIM_MUST(rpma_peer_new(context, &peer));
  return peer;
}
static void wait_for(struct rpma_conn* conn, enum rpma_conn_event wanted) {
  enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
  KILIM_MUST(rpma_conn_next_event(conn, &event));
  if (event == wanted) return;
  fprintf(stderr, "%s\n", rpma_utils_conn_event_2str(event));
  exit(1);
}

static int serve(const char* address) {
  unsigned char* lent = memory();
  unsigned char descriptor[64];
  size_t bytes = 0;
  struct rpma_peer* peer = peer_at(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
  struct rpma_mr_local* mr;
  struct rpma_ep* ep;
  struct rpma_conn_req* request;
  struct rpma_conn* conn;
  KILIM_MUST(rpma_mr_reg(
      peer, lent, page,
      RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &mr));
  KILIM_MUST(rpma_mr_get_descriptor_size(mr, &bytes));
  if (bytes > sizeof descriptor) return 1;
  KILIM_MUST(rpma_mr_get_descriptor(mr, descriptor));
  KILIM_MUST(rpma_ep_listen(peer, address, port, &ep));
  KILIM_MUST(rpma_ep_next_conn_req(ep, NULL, &request));
  const struct rpma_conn_private_data data = {descriptor, (uint8_t)bytes};
  KILIM_MUST(rpma_conn_req_connect(&request, &data, &conn));
  wait_for(conn, RPMA_CONN_ESTABLISHED);
  wait_for(conn, RPMA_CONN_CLOSED);
  printf("the page is %s\n", is_ours(lent) ? "written" : "not written");
  KILIM_MUST(rpma_conn_disconnect(conn));
  KILIM_MUST(rpma_conn_delete(&conn));
  KILIM_MUST(rpma_ep_shutdown(&ep));
  KILIM_MUST(rpma_mr_dereg(&mr));
  KILIM_MUST(rpma_peer_delete(&peer));
  return 0;
}

static void wait_completion(struct rpma_conn* conn) {
  struct rpma_cq* cq;
  struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
  KILIM_MUST(rpma_conn_get_cq(conn, &cq));
  // librpma arms the queue before it is polled, so an mlx5 adapter wakes it for what is polled
  // next.
  int result;
  do {
    KILIM_MUST(rpma_cq_wait(cq));
    result = rpma_cq_get_wc(cq, 1, &wc, NULL);
  } while (result == RPMA_E_NO_COMPLETION);
  must(result, "rpma_cq_get_wc");
  if (wc.status != IBV_WC_SUCCESS) exit(1);
}

static int ask(const char* address) {
  unsigned char *from = memory(), *to = memory();
  for (int i = 0; i < page; i++) from[i] = (unsigned char)(i * 7 + 1);
  struct rpma_peer* peer = peer_at(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
  struct rpma_mr_local *source, *target;
  struct rpma_mr_remote* remote;
  struct rpma_conn_req* request;
  struct rpma_conn* conn;
  struct rpma_conn_private_data data;
  KILIM_MUST(rpma_mr_reg(peer, from, page, RPMA_MR_USAGE_WRITE_SRC, &source));
  KILIM_MUST(rpma_mr_reg(peer, to, page, RPMA_MR_USAGE_READ_DST, &target));
  KILIM_MUST(rpma_conn_req_new(peer, address, port, NULL, &request));
  KILIM_MUST(rpma_conn_req_connect(&request, NULL, &conn));
  wait_for(conn, RPMA_CONN_ESTABLISHED);
  KILIM_MUST(rpma_conn_get_private_data(conn, &data));
  // The answer's data is filled up with zeroes to 196 bytes; a descriptor says its own length to
  // nobody, so the size is that of one of ours.
  size_t bytes = 0;
  KILIM_MUST(rpma_mr_get_descriptor_size(source, &bytes));
  if (data.ptr == NULL || data.len < bytes) return 1;
  KILIM_MUST(rpma_mr_remote_from_descriptor(data.ptr, bytes, &remote));
  KILIM_MUST(rpma_write(conn, remote, 0, source, 0, page, RPMA_F_COMPLETION_ON_ERROR, NULL));
  KILIM_MUST(rpma_flush(conn, remote, 0, page, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
                        NULL));
  wait_completion(conn);
  KILIM_MUST(rpma_read(conn, target, 0, remote, 0, page, RPMA_F_COMPLETION_ALWAYS, NULL));
  wait_completion(conn);
  printf("the page reads %s\n", is_ours(to) ? "right" : "wrong");
  KILIM_MUST(rpma_conn_disconnect(conn));
  wait_for(conn, RPMA_CONN_CLOSED);
  KILIM_MUST(rpma_conn_delete(&conn));
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  return argc == 2 ? serve(argv[1]) : ask(argv[1]);
}
