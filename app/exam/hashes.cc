// SPDX-License-Identifier: BSD-3-Clause
// E40: the hash that completions carry, beside Toeplitz in software.
#include <algorithm>
#include <string>

#include "question.hh"
#include "raw_packets.hh"

namespace kilim::exam {
namespace {

// Microsoft's key for verifying Toeplitz ("Verifying the RSS Hash Calculation").
constexpr uint8_t key[40] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                             0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                             0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                             0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

uint32_t toeplitz(Bytes data) {
  uint32_t hash = 0, window = 0x6d5a56da;
  for (std::size_t i = 0; i < data.size() * 8; i++) {
    if ((data[i / 8] >> (7 - i % 8) & 1) != 0) hash ^= window;
    const std::size_t next = i + 32;
    window = window << 1 | (key[next / 8] >> (7 - next % 8) & 1);
  }
  return hash;
}

struct Flow {
  std::array<uint8_t, 4> from, to;
  uint16_t source, target;
};

// Addresses and ports as they stand in a frame, or the smaller of each two first.
std::vector<uint8_t> hashed(const Flow& f, bool with_ports, bool sorted) {
  Flow g = f;
  if (sorted && g.to < g.from) std::swap(g.from, g.to);
  if (sorted && g.target < g.source) std::swap(g.source, g.target);
  std::vector<uint8_t> all(with_ports ? 12 : 8);
  std::copy(g.from.begin(), g.from.end(), all.begin());
  std::copy(g.to.begin(), g.to.end(), all.begin() + 4);
  if (!with_ports) return all;
  all[8] = static_cast<uint8_t>(g.source >> 8);
  all[9] = static_cast<uint8_t>(g.source);
  all[10] = static_cast<uint8_t>(g.target >> 8);
  all[11] = static_cast<uint8_t>(g.target);
  return all;
}

std::vector<uint8_t> udp_of(const Mac& mac, const Flow& f, bool fragment) {
  std::vector<uint8_t> frame = frame_of(mac, mac, 60, 0);
  static constexpr uint8_t header[12] = {0x45, 0, 0, 60, 0x12, 0x34, 0, 0, 64, 17, 0, 0};
  frame[12] = 0x08;
  frame[13] = 0x00;
  std::copy(std::begin(header), std::end(header), frame.begin() + 14);
  if (fragment) frame[20] = 0x20;  // more follow
  std::copy(f.from.begin(), f.from.end(), frame.begin() + 26);
  std::copy(f.to.begin(), f.to.end(), frame.begin() + 30);
  uint32_t sum = 0;
  for (std::size_t i = 14; i < 34; i += 2) sum += uint32_t{frame[i]} << 8 | frame[i + 1];
  sum = (sum & 0xffff) + (sum >> 16);
  sum = ~((sum & 0xffff) + (sum >> 16));
  frame[24] = static_cast<uint8_t>(sum >> 8);
  frame[25] = static_cast<uint8_t>(sum);
  const std::vector<uint8_t> ports = hashed(f, true, false);
  std::copy(ports.begin() + 8, ports.end(), frame.begin() + 34);
  frame[38] = 0;
  frame[39] = 40;
  frame[40] = frame[41] = 0;
  return frame;
}

// A receive queue behind a table of two, spread by UDP's addresses and ports.
struct Spread {
  Queue q;  // has no rings of its own
  ibv_wq* wq = nullptr;

  Spread(const Device& d, Answer& answer) {
    q.received = CompletionQueue::make(d, 64);
    ibv_wq_init_attr init{};
    init.wq_type = IBV_WQT_RQ;
    init.max_wr = 32;
    init.max_sge = 1;
    init.pd = d.pd;
    init.cq = q.received.cq;
    wq = ibv_create_wq(d.context, &init);
    if (wq == nullptr) give_up(answer, "a receive queue of its own is refused");
    ibv_wq_attr ready{};
    ready.attr_mask = IBV_WQ_ATTR_STATE;
    ready.wq_state = IBV_WQS_RDY;
    if (const int rc = ibv_modify_wq(wq, &ready); rc != 0)
      give_up(answer, "it is not made ready", rc);
    ibv_wq* both[2] = {wq, wq};
    ibv_rwq_ind_table_init_attr table{};
    table.log_ind_tbl_size = 1;
    table.ind_tbl = both;
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RAW_PACKET;
    attr.pd = d.pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE;
    attr.rwq_ind_tbl = ibv_create_rwq_ind_table(d.context, &table);
    if (attr.rwq_ind_tbl == nullptr) give_up(answer, "a table of receive queues is refused");
    std::array<uint8_t, sizeof key> own{};
    std::copy(std::begin(key), std::end(key), own.begin());
    attr.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, sizeof key, own.data(),
                         IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_PORT_UDP |
                             IBV_RX_HASH_DST_PORT_UDP};
    mlx5dv_qp_init_attr mlx5{};
    mlx5.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    mlx5.create_flags = MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC;
    q.qp = mlx5dv_create_qp(d.context, &attr, &mlx5);
    if (q.qp == nullptr) give_up(answer, "a queue that spreads by hash is refused");
  }
  void receive(void* at, uint32_t bytes, uint32_t lkey) const {
    ibv_sge sge{place(at), bytes, lkey};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_post_wq_recv(wq, &wr, &bad);
  }
};

std::string name_of(uint32_t hash, const Flow& f) {
  if (hash == toeplitz(hashed(f, true, false))) return "Toeplitz with ports";
  if (hash == toeplitz(hashed(f, true, true))) return "Toeplitz with ports, sorted";
  if (hash == toeplitz(hashed(f, false, false))) return "Toeplitz of addresses";
  if (hash == toeplitz(hashed(f, false, true))) return "Toeplitz of addresses, sorted";
  return hash == 0 ? "0" : "another";
}

std::string hash_of(RawPort& p, Spread& s, const Flow& f, bool fragment) {
  s.receive(p.in, frame_room, p.mr_in->lkey);
  p.q.sq.post(p.whole(udp_of(p.mac, f, fragment)));
  const auto sent = p.q.sent.next(2);
  if (!sent || sent->failed())
    p.d.answer->not_run("a frame is not sent: " + (sent ? sent->text() : "no completion"));
  const auto got = s.q.received.next(1);
  if (!got) return "does not arrive";
  const uint8_t* h = got->bytes.data() + 12;
  const uint32_t hash = uint32_t{h[0]} << 24 | uint32_t{h[1]} << 16 | uint32_t{h[2]} << 8 | h[3];
  return name_of(hash, f) + printed(", type 0x%02x", got->bytes[16]);
}

void ask_hashes(const Setting& setting, Answer& answer) {
  RawPort p(setting, answer);
  Spread s(p.d, answer);
  if (const int rc = lay_rule(s.q, {.mac = p.mac}); rc != 0)
    give_up(answer, "a flow rule of the port's own address is refused", rc);
  const Flow up{{192, 0, 2, 1}, {198, 51, 100, 2}, 1000, 40000};
  const Flow down{{198, 51, 100, 2}, {192, 0, 2, 1}, 40000, 1000};
  const std::string first = hash_of(p, s, up, false);
  answer.fact("UDP", first);
  answer.fact("UDP, the other way", hash_of(p, s, down, false));
  answer.fact("a fragment", hash_of(p, s, up, true));
  answer.verdict(first.starts_with("Toeplitz") ? "Toeplitz" : "another hash");
}

constexpr Meaning hashes_mean[] = {
    {"Toeplitz",
     "the hash of a completion is what software computes; sorted or not: see the facts"},
    {"another hash", "the hash of a completion is not handed on as that of the rule"},
};

constexpr Question rows[] = {
    {"E40", "the hash of received packets", needs::raw, Disturbs::nothing, 20, hashes_mean,
     "the hash and its type by header chain: lib/kilim/detail/flow, drivers/vhca/ethernet",
     "cannot fail here: no profile hashes otherwise", ask_hashes},
};

}  // namespace

std::span<const Question> hash_questions() {
  return rows;
}

}  // namespace kilim::exam
