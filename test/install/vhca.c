// SPDX-License-Identifier: BSD-3-Clause
// A C99 program of <kilim/vhca.h>, built against what was installed by pkg-config alone: it
// attaches devices, writes, is told of a mistake, has a request fail and another one late, and
// detaches. Neither root, nor a card, nor the launcher.
#include <infiniband/verbs.h>
#include <kilim/vhca.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { area = 4096, part = 64 };

static int wrong(int line, const char* what) {
  fprintf(stderr, "vhca.c:%d: not so: %s (%s)\n", line, what, kilim_vhca_error());
  exit(1);
}
#define KILIM_MUST(condition) ((condition) ? 0 : wrong(__LINE__, #condition))

// A queue pair that is connected to itself, over memory of one page.
struct loop {
  struct kilim_vhca* device;
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  char* memory;
};

static struct ibv_device* find(struct ibv_device** list, const char* name) {
  for (; *list != NULL; list++)
    if (strcmp(ibv_get_device_name(*list), name) == 0) return *list;
  return NULL;
}

static int is_listed(const char* name) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  const int there = list != NULL && find(list, name) != NULL;
  if (list != NULL) ibv_free_device_list(list);
  return there;
}

static void connect_to_itself(struct loop* l) {
  struct ibv_qp_attr a;
  union ibv_gid gid;
  memset(&a, 0, sizeof a);
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  KILIM_MUST(ibv_modify_qp(l->qp, &a,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
             0);
  KILIM_MUST(ibv_query_gid(l->context, 1, 0, &gid) == 0);
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = l->qp->qp_num;
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 12;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.dgid = gid;
  a.ah_attr.grh.hop_limit = 64;
  KILIM_MUST(ibv_modify_qp(l->qp, &a,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
             0);
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = 7;
  a.rnr_retry = 7;
  a.max_rd_atomic = 1;
  KILIM_MUST(ibv_modify_qp(l->qp, &a,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void make_queue(struct loop* l) {
  struct ibv_qp_init_attr init;
  memset(&init, 0, sizeof init);
  init.send_cq = init.recv_cq = l->cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = init.cap.max_recv_wr = 8;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  KILIM_MUST((l->qp = ibv_create_qp(l->pd, &init)) != NULL);
  connect_to_itself(l);
}

static void open_loop(struct loop* l, const char* name) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  KILIM_MUST(list != NULL && find(list, name) != NULL);
  KILIM_MUST((l->context = ibv_open_device(find(list, name))) != NULL);
  ibv_free_device_list(list);
  KILIM_MUST((l->pd = ibv_alloc_pd(l->context)) != NULL);
  KILIM_MUST((l->cq = ibv_create_cq(l->context, 16, NULL, NULL, 0)) != NULL);
  l->memory = mmap(NULL, area, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KILIM_MUST(l->memory != MAP_FAILED);
  KILIM_MUST((l->mr = ibv_reg_mr(l->pd, l->memory, area, access)) != NULL);
  make_queue(l);
}

static void close_loop(struct loop* l) {
  KILIM_MUST(ibv_destroy_qp(l->qp) == 0 && ibv_dereg_mr(l->mr) == 0);
  KILIM_MUST(ibv_destroy_cq(l->cq) == 0 && ibv_dealloc_pd(l->pd) == 0);
  KILIM_MUST(ibv_close_device(l->context) == 0);
}

// From one part of the page to another; of a READ the second one is what is read.
static void post(struct loop* l, enum ibv_wr_opcode opcode, int here, int there) {
  struct ibv_sge sge = {(uintptr_t)l->memory + (uintptr_t)(here * part), part, 0};
  struct ibv_send_wr wr, *bad;
  sge.lkey = l->mr->lkey;
  memset(&wr, 0, sizeof wr);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = (uintptr_t)l->memory + (uintptr_t)(there * part);
  wr.wr.rdma.rkey = l->mr->rkey;
  KILIM_MUST(ibv_post_send(l->qp, &wr, &bad) == 0);
}

static enum ibv_wc_status completion(struct loop* l) {
  struct ibv_wc wc;
  int n = 0, looks = 0;
  while ((n = ibv_poll_cq(l->cq, 1, &wc)) == 0 && looks++ < 1000) kilim_vhca_poll(l->device, 16);
  KILIM_MUST(n == 1);
  return wc.status;
}

static void a_write_arrives(struct kilim_vhca* device, struct loop* l) {
  memset(l->memory, 'a', part);
  post(l, IBV_WR_RDMA_WRITE, 0, 1);
  KILIM_MUST(kilim_vhca_poll(device, 16) > 0);
  KILIM_MUST(completion(l) == IBV_WC_SUCCESS);
  KILIM_MUST(l->memory[part] == 'a' && l->memory[2 * part - 1] == 'a' && l->memory[2 * part] == 0);
}

static void a_fault_strikes_once(struct kilim_vhca* device, struct loop* l) {
  KILIM_MUST(kilim_vhca_fault(device, "wqe@2") == 0);
  post(l, IBV_WR_RDMA_WRITE, 0, 1);
  KILIM_MUST(completion(l) == IBV_WC_SUCCESS);
  post(l, IBV_WR_RDMA_WRITE, 0, 1);
  KILIM_MUST(completion(l) == IBV_WC_LOC_QP_OP_ERR);
  KILIM_MUST(ibv_destroy_qp(l->qp) == 0);
  make_queue(l);
  KILIM_MUST(kilim_vhca_fault(device, "wqe@1") == 0 && kilim_vhca_fault(device, "off") == 0);
  post(l, IBV_WR_RDMA_WRITE, 0, 1);
  KILIM_MUST(completion(l) == IBV_WC_SUCCESS);
}

// What a WRITE carries that does not wait for the READ before it.
static char carried_behind_a_read(struct kilim_vhca* device, struct loop* l, const char* order) {
  KILIM_MUST(kilim_vhca_order(device, order) == 0);
  KILIM_MUST(ibv_destroy_qp(l->qp) == 0);
  make_queue(l);
  memset(l->memory, 'n', part);
  memset(l->memory + part, 'o', part);
  post(l, IBV_WR_RDMA_READ, 1, 0);
  post(l, IBV_WR_RDMA_WRITE, 1, 2);
  KILIM_MUST(completion(l) == IBV_WC_SUCCESS && completion(l) == IBV_WC_SUCCESS);
  return l->memory[2 * part];
}

// The region is told of when it goes, as a turn of the device sees, and when it is used.
static void the_linter_tells(struct kilim_vhca* device, struct loop* l) {
  char text[512], small[8];
  KILIM_MUST(kilim_vhca_lint_report(device, text, sizeof text) == 0 && text[0] == '\0');
  KILIM_MUST(munmap(l->memory, area) == 0);
  for (int looks = 0; looks < 10000 && kilim_vhca_lint_report(device, NULL, 0) == 0; looks++) {
    kilim_vhca_poll(device, 0);
    usleep(1000);
  }
  post(l, IBV_WR_RDMA_WRITE, 0, 1);
  KILIM_MUST(completion(l) != IBV_WC_SUCCESS);
  const int bytes = kilim_vhca_lint_report(device, text, sizeof text);
  KILIM_MUST(bytes > 0 && (size_t)bytes == strlen(text));
  KILIM_MUST(strncmp(text, "unmapped-region: 2: ", 20) == 0 && text[bytes - 1] == '\n');
  KILIM_MUST(kilim_vhca_lint_report(device, small, sizeof small) == bytes &&
             strcmp(small, "unmappe") == 0);
  KILIM_MUST(kilim_vhca_lint(device, "off") == 0 && kilim_vhca_lint_report(device, NULL, 0) == 0);
}

static void refusals_are_told(struct kilim_vhca* device) {
  struct kilim_vhca* other = device;
  KILIM_MUST(kilim_vhca_attach("name=cdoor0", &other) < 0 && other == NULL);
  KILIM_MUST(strstr(kilim_vhca_error(), "attached already") != NULL);
  KILIM_MUST(kilim_vhca_attach("lnt=warn", &other) < 0 && other == NULL);
  KILIM_MUST(strstr(kilim_vhca_error(), "is 'lint' meant?") != NULL);
  KILIM_MUST(kilim_vhca_order(device, "later") < 0 && kilim_vhca_error()[0] != '\0');
  KILIM_MUST(kilim_vhca_lint(device, "loud") < 0 && kilim_vhca_error()[0] != '\0');
  KILIM_MUST(kilim_vhca_fault(device, "wqe@0") < 0 && kilim_vhca_fault(device, NULL) < 0);
  KILIM_MUST(kilim_vhca_poll(device, 0) >= 0 && kilim_vhca_error()[0] == '\0');
}

static void a_device_is_as_its_words_say(void) {
  struct kilim_vhca* device;
  unsigned n = 0;
  int found = 0;
  for (; kilim_vhca_profile_name(n) != NULL; n++)
    found |= strcmp(kilim_vhca_profile_name(n), "no-dm") == 0;
  KILIM_MUST(found && n > 10 && strstr(kilim_vhca_words(), "order=ORDER") != NULL);
  KILIM_MUST(kilim_vhca_attach("name=cdoor1,profile=no-dm,seed=5", &device) == 0);
  KILIM_MUST(strcmp(kilim_vhca_profile(device), "no-dm") == 0);
  KILIM_MUST(is_listed("cdoor0") && is_listed("cdoor1"));
  KILIM_MUST(kilim_vhca_detach(device) == 0 && kilim_vhca_detach(device) == 0);
  KILIM_MUST(is_listed("cdoor0") && !is_listed("cdoor1"));
}

// What the launcher's options describe the program does not.
static void under_the_launcher(void) {
  struct kilim_vhca* device;
  char text[16];
  KILIM_MUST(kilim_vhca_attach("name=cdoor0,profile=vf", &device) < 0);
  KILIM_MUST(strstr(kilim_vhca_error(), "launcher's options") != NULL);
  KILIM_MUST(kilim_vhca_attach("name=cdoor9", &device) < 0);
  KILIM_MUST(kilim_vhca_attach("name=cdoor0,progress=thread", &device) == 0);
  KILIM_MUST(kilim_vhca_fault(device, "wqe@1") < 0 && kilim_vhca_order(device, "weak") < 0);
  KILIM_MUST(kilim_vhca_lint_report(device, text, sizeof text) < 0);
  KILIM_MUST(kilim_vhca_profile(device) == NULL && kilim_vhca_error()[0] != '\0');
  KILIM_MUST(kilim_vhca_lint(device, "warn") == 0 && kilim_vhca_poll(device, 1) >= 0);
  KILIM_MUST(kilim_vhca_detach(device) == 0 && is_listed("cdoor0"));
  puts("vhca: the launcher's");
}

int main(int argc, char** argv) {
  struct kilim_vhca* device;
  struct loop l;
  if (argc > 1 && strcmp(argv[1], "launched") == 0) {
    under_the_launcher();
    return 0;
  }
  memset(&l, 0, sizeof l);
  KILIM_MUST(kilim_vhca_attach("name=cdoor0,lint=warn", &device) == 0 &&
             kilim_vhca_error()[0] == '\0');
  KILIM_MUST(strcmp(kilim_vhca_name(device), "cdoor0") == 0 &&
             strcmp(kilim_vhca_profile(device), "cx6dx") == 0);
  l.device = device;
  open_loop(&l, "cdoor0");
  a_write_arrives(device, &l);
  a_fault_strikes_once(device, &l);
  KILIM_MUST(carried_behind_a_read(device, &l, "late-read") == 'o');
  KILIM_MUST(carried_behind_a_read(device, &l, "strict") == 'n');
  refusals_are_told(device);
  a_device_is_as_its_words_say();
  the_linter_tells(device, &l);
  close_loop(&l);
  KILIM_MUST(kilim_vhca_detach(device) == 0 && !is_listed("cdoor0"));
  printf("vhca %s: right\n", kilim_vhca_version());
  return 0;
}
