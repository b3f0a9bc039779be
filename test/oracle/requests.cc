// SPDX-License-Identifier: BSD-3-Clause
// Part of the peer: what it posts and receives.
#include <cerrno>
#include <sstream>
#include <utility>
#include <vector>

#include <arpa/inet.h>

#include "peer.hh"

namespace kilim::oracle {
namespace {

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

}  // namespace

std::string receive(const Words& w) {
  std::vector<ibv_sge> pieces = pieces_of(w);
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = w.number("id");
  wr.sg_list = pieces.data();
  wr.num_sge = static_cast<int>(pieces.size());
  int code = ibv_post_recv(objects.queues[w.at(1)].qp, &wr, &bad);
  return code == 0 ? "ok" : error(code);
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

}  // namespace kilim::oracle
