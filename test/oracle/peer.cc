// SPDX-License-Identifier: BSD-3-Clause
// One end of the oracle's pair: a plain verbs program that does what lines on its input say and
// answers each with one line. The same program runs on the virtual adapter and in the guest on
// rdma_rxe. Usage: peer DEVICE [TERMINAL]. Knows nothing of Kilim and judges nothing.

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <termios.h>
#include <unistd.h>
#include <zlib.h>

#include "objects.hh"
#include "words.hh"

namespace kilim::oracle {
namespace {

constexpr int depth = 64;
constexpr uint8_t port_number = 1;

ibv_context* context = nullptr;
Objects objects;

std::string error(int code) {
  return "error " + std::to_string(code);
}

// The kernel's answer may be a short text; longer ones are made of these.
template <typename... T>
std::string format(const char* pattern, T... values) {
  char text[512];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

std::string hello(const Words&) {
  ibv_gid gid{};
  ibv_port_attr port{};
  if (ibv_query_gid(context, port_number, 0, &gid) != 0) return error(errno);
  if (ibv_query_port(context, port_number, &port) != 0) return error(errno);
  char text[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, &gid, text, sizeof(text));
  return format("ok gid=%s state=%d mtu=%d", text, port.state, port.active_mtu);
}

std::string clear(const Words&) {
  objects.clear();
  objects.sent = ibv_create_cq(context, 4 * depth, nullptr, nullptr, 0);
  objects.received = ibv_create_cq(context, 4 * depth, nullptr, nullptr, 0);
  return objects.sent != nullptr && objects.received != nullptr ? "ok" : error(errno);
}

std::string domain(const Words& w) {
  ibv_pd* pd = ibv_alloc_pd(context);
  if (pd == nullptr) return error(errno);
  objects.domains[w.at(1)] = pd;
  return "ok";
}

// Every byte tells its place, so that data that went elsewhere is seen.
std::string region(const Words& w) {
  auto size = w.number("bytes");
  auto seed = w.as<uint32_t>("seed");
  Region r = Region::of(size);
  uint8_t* start = r.start();
  for (uint32_t i = 0; i < size; i++)
    start[i] = static_cast<uint8_t>((i * 7) ^ (i >> 8) ^ (seed * 37));
  r.mr = ibv_reg_mr(objects.domains[w.text("pd")], start, size, w.as<int>("access"));
  if (r.mr == nullptr) return error(errno);
  auto address = reinterpret_cast<uintptr_t>(start);
  std::string keys = format("ok addr=%zu lkey=%u rkey=%u", address, r.mr->lkey, r.mr->rkey);
  objects.regions[w.at(1)] = std::move(r);
  return keys;
}

// The memory stays: only its registration goes.
std::string deregister(const Words& w) {
  Region& r = objects.regions[w.at(1)];
  int code = ibv_dereg_mr(r.mr);
  if (code == 0) r.mr = nullptr;
  return code == 0 ? "ok" : error(code);
}

std::string window(const Words& w) {
  auto type = static_cast<ibv_mw_type>(w.number("type", IBV_MW_TYPE_2));
  ibv_mw* mw = ibv_alloc_mw(objects.domains[w.text("pd")], type);
  if (mw == nullptr) return error(errno);
  objects.windows[w.at(1)] = mw;
  return format("ok rkey=%u", mw->rkey);
}

ibv_qp_type type_of(const std::string& word) {
  return word == "ud" ? IBV_QPT_UD : word == "uc" ? IBV_QPT_UC : IBV_QPT_RC;
}

std::string queue(const Words& w) {
  ibv_qp_init_attr init{};
  init.send_cq = objects.sent;
  init.recv_cq = objects.received;
  init.qp_type = type_of(w.text("type"));
  init.cap = {depth, depth, 4, 4, w.as<uint32_t>("inline")};
  ibv_qp* qp = ibv_create_qp(objects.domains[w.text("pd")], &init);
  if (qp == nullptr) return error(errno);
  objects.queues[w.at(1)] = {qp, nullptr, 0};
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = port_number;
  attr.qkey = w.as<uint32_t>("qkey");
  attr.qp_access_flags = w.as<unsigned>("access");
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
             (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  int code = ibv_modify_qp(qp, &attr, mask);
  return code == 0 ? format("ok qpn=%u", qp->qp_num) : error(code);
}

int to_ready_to_receive(const Words& w, ibv_qp* qp, const ibv_ah_attr& path) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(w.number("mtu"));
  attr.dest_qp_num = w.as<uint32_t>("peer");
  attr.rq_psn = w.as<uint32_t>("peer_psn");
  attr.max_dest_rd_atomic = w.as<uint8_t>("reads", 4);
  attr.min_rnr_timer = w.as<uint8_t>("rnr_timer", 12);
  attr.ah_attr = path;
  int mask = IBV_QP_STATE;
  if (qp->qp_type != IBV_QPT_UD)
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (qp->qp_type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return ibv_modify_qp(qp, &attr, mask);
}

int to_ready_to_send(const Words& w, ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = w.as<uint32_t>("psn");
  attr.timeout = w.as<uint8_t>("timeout", 14);
  attr.retry_cnt = w.as<uint8_t>("retry", 7);
  attr.rnr_retry = w.as<uint8_t>("rnr_retry", 7);
  attr.max_rd_atomic = w.as<uint8_t>("reads", 4);
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (qp->qp_type == IBV_QPT_RC)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(qp, &attr, mask);
}

std::string connect(const Words& w) {
  Queue& q = objects.queues[w.at(1)];
  ibv_ah_attr path{};
  path.is_global = 1;
  path.grh.hop_limit = 64;
  path.port_num = port_number;
  inet_pton(AF_INET6, w.text("gid").c_str(), &path.grh.dgid);
  q.peer = w.as<uint32_t>("peer");
  if (q.qp->qp_type == IBV_QPT_UD) {
    q.ah = ibv_create_ah(q.qp->pd, &path);
    if (q.ah == nullptr) return error(errno);
  }
  int code = to_ready_to_receive(w, q.qp, path);
  if (code == 0) code = to_ready_to_send(w, q.qp);
  return code == 0 ? "ok" : error(code);
}

// "key:address:bytes,..."
std::vector<ibv_sge> pieces_of(const Words& w) {
  std::vector<ibv_sge> pieces;
  std::istringstream in(w.text("sge"));
  for (std::string piece; std::getline(in, piece, ',');) {
    std::vector<uint64_t> n = numbers(piece, ':');
    pieces.push_back({n[1], static_cast<uint32_t>(n[2]), static_cast<uint32_t>(n[0])});
  }
  return pieces;
}

std::string receive(const Words& w) {
  std::vector<ibv_sge> pieces = pieces_of(w);
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = w.number("id");
  wr.sg_list = pieces.data();
  wr.num_sge = static_cast<int>(pieces.size());
  int code = ibv_post_recv(objects.queues[w.at(1)].qp, &wr, &bad);
  return code == 0 ? "ok" : error(code);
}

constexpr std::pair<const char*, ibv_wr_opcode> opcodes[] = {
    {"write", IBV_WR_RDMA_WRITE},
    {"write_imm", IBV_WR_RDMA_WRITE_WITH_IMM},
    {"send", IBV_WR_SEND},
    {"send_imm", IBV_WR_SEND_WITH_IMM},
    {"send_inv", IBV_WR_SEND_WITH_INV},
    {"read", IBV_WR_RDMA_READ},
    {"cas", IBV_WR_ATOMIC_CMP_AND_SWP},
    {"add", IBV_WR_ATOMIC_FETCH_AND_ADD},
    {"inv", IBV_WR_LOCAL_INV},
    {"bind", IBV_WR_BIND_MW},
};

void set_operands(const Words& w, const Queue& q, ibv_send_wr& wr) {
  wr.wr.rdma.remote_addr = w.number("addr");
  wr.wr.rdma.rkey = w.as<uint32_t>("rkey");
  if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    wr.wr.atomic = {w.number("addr"), w.number("add", w.number("compare")), w.number("swap"),
                    w.as<uint32_t>("rkey")};
  if (wr.opcode == IBV_WR_SEND_WITH_INV || wr.opcode == IBV_WR_LOCAL_INV)
    wr.invalidate_rkey = w.as<uint32_t>("rkey");
  else
    wr.imm_data = htonl(w.as<uint32_t>("imm"));
  if (q.ah != nullptr) wr.wr.ud = {q.ah, q.peer, w.as<uint32_t>("qkey")};
}

// A bind says which piece of which region, and the key's new tag.
void set_window(const Words& w, ibv_send_wr& wr) {
  ibv_mw* mw = objects.windows[w.text("window")];
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = w.as<uint32_t>("rkey");
  wr.bind_mw.bind_info = {objects.regions[w.text("region")].mr, w.number("addr"), w.number("bytes"),
                          w.as<unsigned>("access")};
}

std::string post(const Words& w) {
  Queue& q = objects.queues[w.at(1)];
  std::vector<ibv_sge> pieces = pieces_of(w);
  ibv_send_wr wr{}, *bad = nullptr;
  for (auto [name, opcode] : opcodes) {
    if (w.text("op") == name) wr.opcode = opcode;
  }
  wr.wr_id = w.number("id");
  wr.sg_list = pieces.data();
  wr.num_sge = static_cast<int>(pieces.size());
  wr.send_flags = w.as<unsigned>("flags");
  if (wr.opcode == IBV_WR_BIND_MW)
    set_window(w, wr);
  else
    set_operands(w, q, wr);
  int code = ibv_post_send(q.qp, &wr, &bad);
  return code == 0 ? "ok" : error(code);
}

// What a completion says; after an error only number and status are defined.
void note(const char* side, const ibv_wc& wc) {
  std::string line = format("%s%zu:%d", side, static_cast<std::size_t>(wc.wr_id), wc.status);
  if (wc.status == IBV_WC_SUCCESS) {
    bool receive = (wc.opcode & IBV_WC_RECV) != 0;
    bool counts = receive || wc.opcode == IBV_WC_RDMA_READ;
    line += format(":%d:%u", wc.opcode, counts ? wc.byte_len : 0);
    if (receive && (wc.wc_flags & IBV_WC_WITH_IMM) != 0)
      line += format(":imm%u", ntohl(wc.imm_data));
    if (receive && (wc.wc_flags & IBV_WC_WITH_INV) != 0) line += ":inv";
  }
  objects.completions.push_back(line);
}

void collect() {
  ibv_wc wc{};
  while (ibv_poll_cq(objects.sent, 1, &wc) > 0) note("s", wc);
  while (ibv_poll_cq(objects.received, 1, &wc) > 0) note("r", wc);
}

// All completions since the objects were made, once there are `count` of them or the time is over.
std::string wait(const Words& w) {
  using clock = std::chrono::steady_clock;
  auto end = clock::now() + std::chrono::milliseconds(w.number("ms"));
  collect();
  while (objects.completions.size() < w.number("count") && clock::now() < end) {
    usleep(200);
    collect();
  }
  std::string all = "ok";
  for (const std::string& line : objects.completions) all += " " + line;
  return all;
}

std::string state(const Words& w) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  int code = ibv_query_qp(objects.queues[w.at(1)].qp, &attr, IBV_QP_STATE, &init);
  return code == 0 ? format("ok state=%d", attr.qp_state) : error(code);
}

std::string checksum(const Words& w) {
  const uint8_t* from = objects.regions[w.at(1)].start() + w.number("at");
  return format("ok crc=%u", static_cast<uint32_t>(crc32_z(0, from, w.number("bytes"))));
}

std::string set(const Words& w) {
  uint64_t value = w.number("value");
  std::memcpy(objects.regions[w.at(1)].start() + w.number("at"), &value, sizeof(value));
  return "ok";
}

struct Verb {
  const char* name;
  std::string (*run)(const Words&);
};
constexpr Verb verbs[] = {
    {"hello", hello},       {"clear", clear}, {"domain", domain},   {"region", region},
    {"window", window},     {"queue", queue}, {"connect", connect}, {"deregister", deregister},
    {"receive", receive},   {"post", post},   {"wait", wait},       {"state", state},
    {"checksum", checksum}, {"set", set},
};

std::string answer(const std::string& line) {
  Words w(line);
  for (const Verb& verb : verbs) {
    if (w.at(0) == verb.name) return verb.run(w);
  }
  return "error: there is no such verb";
}

ibv_context* open_device(const char* wanted) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ibv_context* found = nullptr;
  for (int i = 0; list != nullptr && i < count; i++) {
    if (std::strcmp(ibv_get_device_name(list[i]), wanted) == 0) found = ibv_open_device(list[i]);
  }
  if (list != nullptr) ibv_free_device_list(list);
  return found;
}

// A serial line as a plain stream of bytes.
bool use_terminal(const char* path) {
  int fd = open(path, O_RDWR | O_NOCTTY);
  termios raw{};
  if (fd < 0 || tcgetattr(fd, &raw) != 0) return false;
  cfmakeraw(&raw);
  return tcsetattr(fd, TCSANOW, &raw) == 0 && dup2(fd, STDIN_FILENO) >= 0 &&
         dup2(fd, STDOUT_FILENO) >= 0;
}

}  // namespace
}  // namespace kilim::oracle

int main(int argc, char** argv) {
  using namespace kilim::oracle;
  if (argc < 2 || (argc > 2 && !use_terminal(argv[2]))) return 2;
  context = open_device(argv[1]);
  std::cout << (context != nullptr ? "ok ready" : "error: the device does not open") << std::endl;
  if (context == nullptr) return 1;
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(line) << std::endl;
  objects.clear();
  return ibv_close_device(context) == 0 ? 0 : 1;
}
