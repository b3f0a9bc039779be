// SPDX-License-Identifier: BSD-3-Clause
// One end of the oracle's pair: a plain verbs program that does what lines on its input say and
// answers each with one line. The same program runs on the virtual adapter and in the guest on
// rdma_rxe. Usage: peer DEVICE [TERMINAL]. Knows nothing of Kilim and judges nothing.
#include "peer.hh"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <termios.h>
#include <unistd.h>
#include <zlib.h>

namespace kilim::oracle {
namespace {

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
