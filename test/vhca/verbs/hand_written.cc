// SPDX-License-Identifier: BSD-3-Clause
// A client that takes from libmlx5 the memory of its queues alone, as SPDK's lib/mlx5 does, which
// Debian does not have: states change by firmware commands on a verbs queue pair, with forced
// loopback and no address (mlx5_qp.c, mlx5_qp_loopback_conn); keys are made free (mlx5_umr.c,
// mlx5_mkey_create); UMRs, SET_PSV and WRITEs are put together here, around the ring's end too
// (spdk_mlx5_umr_configure, _sig, spdk_mlx5_qp_set_psv, mlx5_dma.c). Part of umr_ut.
#include <array>
#include <numeric>

#include <endian.h>

#include "fabric_fixture.hh"
#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/mkc.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/umr_seg.hh"
#include "umr_cases.hh"

namespace kilim::test {
namespace hand_written_ut {
namespace {

namespace prm = kilim::prm;

constexpr uint32_t block_bytes = 64, data_bytes = 4096;
constexpr uint8_t signaled = MLX5_WQE_CTRL_CQ_UPDATE, fenced = 1 << 5;  // initiator small

uint32_t number_of(ibv_pd* pd) {
  mlx5dv_pd out{};
  mlx5dv_obj obj{};
  obj.pd.in = pd;
  obj.pd.out = &out;
  EQUAL(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD), 0);
  return out.pdn;
}

struct Entry {
  uint8_t opcode = MLX5_CQE_INVALID, syndrome = 0;
  uint32_t mkey = 0;  // of a wrong signature
};

// What is written of a WQE.
struct Body {
  template <typename T>
  Body& add(const T& segment) {
    std::memcpy(bytes.data() + size, &segment, sizeof segment);
    size += sizeof segment;
    return *this;
  }
  std::array<uint8_t, 1024> bytes{};
  std::size_t size = 0;
};

class Queue {
 public:
  explicit Queue(ibv_pd* pd)
      : verbs_cq_(ibv_create_cq(context(), 64, nullptr, nullptr, 0)),
        qp_(create_qp(pd, verbs_cq_, {rc_ops, MLX5DV_QP_EX_WITH_MKEY_CONFIGURE})) {
    CU_ASSERT_FATAL(qp_ != nullptr);
    mlx5dv_obj obj{};
    obj.qp = {qp_, &dv_};
    obj.cq = {verbs_cq_, &cq_};
    EQUAL_FATAL(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
    bring_up();
  }
  ~Queue() {
    EQUAL(ibv_destroy_qp(qp_), 0);
    EQUAL(ibv_destroy_cq(verbs_cq_), 0);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  [[nodiscard]] uint32_t blocks() const { return dv_.sq.wqe_cnt; }

  // Behind the control segment stands `body`, whose basic blocks go around the ring's end.
  void post(uint8_t opcode, uint8_t flags, uint32_t imm, const Body& body) {
    mlx5_wqe_ctrl_seg ctrl{};
    const std::size_t size = sizeof ctrl + body.size;
    mlx5dv_set_ctrl_seg(&ctrl, pi_, opcode, 0, qp_->qp_num, flags, static_cast<uint8_t>(size / 16),
                        0, htobe32(imm));
    std::array<uint8_t, 1024 + sizeof ctrl> wqe{};
    std::memcpy(wqe.data(), &ctrl, sizeof ctrl);
    std::memcpy(wqe.data() + sizeof ctrl, body.bytes.data(), body.bytes.size());
    for (std::size_t at = 0; at < size; at += block_bytes, pi_++)
      std::memcpy(block(pi_), wqe.data() + at, block_bytes);
    std::memcpy(&first_, &ctrl, sizeof first_);
  }
  void ring() {
    dv_.dbrec[MLX5_SND_DBR] = htobe32(pi_);
    *static_cast<volatile uint64_t*>(dv_.bf.reg) = first_;
  }
  // The next completion; invalid: none came.
  Entry wait() {
    for (int i = 0; i < 2000; i++) {
      auto* cqe = reinterpret_cast<mlx5_cqe64*>(static_cast<uint8_t*>(cq_.buf) +
                                                std::size_t{ci_ % cq_.cqe_cnt} * cq_.cqe_size);
      const uint8_t opcode = mlx5dv_get_cqe_opcode(cqe);
      const bool mine = mlx5dv_get_cqe_owner(cqe) == ((ci_ & cq_.cqe_cnt) != 0 ? 1 : 0);
      if (mine && opcode != MLX5_CQE_INVALID) {
        cq_.dbrec[0] = htobe32(++ci_ & 0xffffff);
        const auto* err = reinterpret_cast<const mlx5_err_cqe*>(cqe);
        const auto* sign = reinterpret_cast<const prm::SigErrCqe*>(cqe);
        return {opcode, err->syndrome, sign->mkey.host()};
      }
      shared().poll();
    }
    return {};
  }

 private:
  uint8_t* block(uint16_t index) {
    return static_cast<uint8_t*>(dv_.sq.buf) + std::size_t{index % dv_.sq.wqe_cnt} * block_bytes;
  }

  using Command = std::array<uint8_t, prm::create_qp_in::bytes>;
  template <typename Fill>
  void step(uint16_t opcode, Fill fill) {
    Command in{};
    std::array<uint8_t, 16> out{};
    const std::span<std::byte> words = std::as_writable_bytes(std::span(in));
    in[0] = static_cast<uint8_t>(opcode >> 8);
    in[1] = static_cast<uint8_t>(opcode);
    prm::cap_set(words, {0x48, 24}, qp_->qp_num);
    fill(words.subspan(prm::qp_cmd::in_context));
    EQUAL_FATAL(mlx5dv_devx_qp_modify(qp_, in.data(), in.size(), out.data(), out.size()), 0);
  }
  void bring_up() {
    using Words = std::span<std::byte>;
    constexpr std::size_t path = prm::qpc::primary_address_path;
    step(prm::cmd::qp_rst2init, [](Words qpc) {
      prm::cap_set(qpc, {0x13, 2}, 3);  // pm_state: migrated
      prm::cap_set(qpc.subspan(path), prm::ads::vhca_port_num, 1);
      prm::cap_set(qpc, prm::qpc::rre, 1);
      prm::cap_set(qpc, prm::qpc::rwe, 1);
    });
    step(prm::cmd::qp_init2rtr, [this](Words qpc) {
      prm::cap_set(qpc, prm::qpc::log_msg_max, 30);
      prm::cap_set(qpc, prm::qpc::mtu, IBV_MTU_4096);
      prm::cap_set(qpc, prm::qpc::remote_qpn, qp_->qp_num);
      prm::cap_set(qpc, prm::qpc::next_rcv_psn, 0x4242);
      prm::cap_set(qpc, prm::qpc::log_rra_max, 4);
      prm::cap_set(qpc, prm::qpc::min_rnr_nak, 12);
      prm::cap_set(qpc.subspan(path), prm::ads::fl, 1);
    });
    step(prm::cmd::qp_rtr2rts, [](Words qpc) {
      prm::cap_set(qpc.subspan(path), prm::ads::ack_timeout, 14);
      prm::cap_set(qpc, prm::qpc::retry_count, 7);
      prm::cap_set(qpc, prm::qpc::rnr_retry, 7);
      prm::cap_set(qpc, prm::qpc::next_send_psn, 0x4242);
      prm::cap_set(qpc, prm::qpc::log_sra_max, 4);
    });
  }

  ibv_cq* verbs_cq_;
  ibv_qp* qp_;
  mlx5dv_qp dv_{};
  mlx5dv_cq cq_{};
  uint16_t pi_ = 0;
  uint32_t ci_ = 0;
  uint64_t first_ = 0;  // of the WQE that was posted last
};

// A free key with room for 128 pieces, and for a signature.
struct FreeKey {
  explicit FreeKey(ibv_pd* pd, bool signs = false) {
    prm::CreateMkeyIn in{};
    in.opcode = be16{prm::cmd::create_mkey};
    prm::Mkc& k = in.mkc;
    prm::mkc::free::set(k, 1);
    prm::mkc::umr_en::set(k, 1);
    prm::mkc::local_write::set(k, 1);
    prm::mkc::local_read::set(k, 1);
    prm::mkc::remote_write::set(k, 1);
    prm::mkc::remote_read::set(k, 1);
    prm::mkc::access_mode_1_0::set(k, prm::mkc::access_mode_klm);
    prm::mkc::qpn::set(k, 0xffffff);
    prm::mkc::tag::set(k, tag);
    prm::mkc::pd::set(k, number_of(pd));
    prm::mkc::bsf_en::set(k, signs ? 1 : 0);
    k.bsf_octword_size = be32{signs ? prm::bsf::octowords : 0};
    k.translations_octword_size = be32{128};
    std::array<uint8_t, 16> out{};
    object = mlx5dv_devx_obj_create(context(), &in, sizeof in, out.data(), out.size());
    CU_ASSERT_FATAL(object != nullptr);
    number = uint32_t{out[9]} << 24 | uint32_t{out[10]} << 16 | uint32_t{out[11]} << 8 | tag;
  }
  ~FreeKey() { EQUAL(mlx5dv_devx_obj_destroy(object), 0); }
  FreeKey(const FreeKey&) = delete;
  FreeKey& operator=(const FreeKey&) = delete;
  static constexpr uint8_t tag = 0x42;
  mlx5dv_devx_obj* object = nullptr;
  uint32_t number = 0;
};

// What stands behind the control segment of a UMR; `bsf` is behind the list, if there is one.
Body umr_of(const std::vector<ibv_sge>& pieces, const prm::Bsf* bsf = nullptr) {
  const std::size_t places = (pieces.size() + 3) / 4 * 4;
  mlx5_wqe_umr_ctrl_seg ctrl{};
  ctrl.flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE;
  ctrl.klm_octowords = htobe16(static_cast<uint16_t>(places));
  uint64_t mask = MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE | MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN;
  mlx5_wqe_mkey_context_seg key{};
  uint64_t bytes = 0;
  for (const ibv_sge& p : pieces) bytes += p.length;
  key.len = htobe64(bytes);
  if (bsf != nullptr) {
    ctrl.translation_offset = htobe16(prm::bsf::octowords);  // bsf_octowords: the same field
    mask |= prm::umr::mask_sig_err;
    key.flags_pd = htobe32(prm::mkey::sig_err_count);
  }
  ctrl.mkey_mask = htobe64(mask);
  Body body;
  body.add(ctrl).add(key);
  for (const ibv_sge& p : pieces)
    body.add(mlx5_wqe_umr_klm_seg{htobe32(p.length), htobe32(p.lkey), htobe64(p.addr)});
  body.size += (places - pieces.size()) * sizeof(mlx5_wqe_umr_klm_seg);
  return bsf != nullptr ? body.add(*bsf) : body;
}

Body rdma_of(uint64_t remote, uint32_t rkey, const ibv_sge& local) {
  Body body;
  return body.add(mlx5_wqe_raddr_seg{htobe64(remote), htobe32(rkey), 0})
      .add(mlx5_wqe_data_seg{htobe32(local.length), htobe32(local.lkey), htobe64(local.addr)});
}

struct Bench {
  ibv_pd* pd = ibv_alloc_pd(context());
  Region from{pd, 4 * data_bytes}, to{pd, 4 * data_bytes};
  Bench() {
    std::iota(from.data(), from.data() + 4 * data_bytes, uint8_t{0});
    for (uint32_t i = 0; i < 4 * data_bytes; i += 251)
      from.data()[i] = static_cast<uint8_t>(i >> 8);
  }
  ~Bench() {
    from.release();
    to.release();
    EQUAL(ibv_dealloc_pd(pd), 0);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
};

// UMR and WRITE in one doorbell; each length of list meets the ring's end at several places.
void umrs_written_by_hand_gather() {
  Bench b;
  Queue queue(b.pd);
  const FreeKey key(b.pd);
  uint32_t blocks = 0, laps = 0;
  for (uint32_t round = 0; laps < 12; round++) {
    const uint32_t count = 1 + round % 16;
    std::vector<ibv_sge> pieces;
    std::vector<uint8_t> wanted(std::size_t{count} * 200);
    uint32_t length = 0;
    for (uint32_t i = 0; i < count; i++) {
      const uint32_t at = (i * 37 + round) * 101 % (3 * data_bytes),
                     bytes = 1 + (i * 59 + round) % 200;
      pieces.push_back(b.from.sge(at, bytes));
      std::memcpy(&wanted[length], b.from.data() + at, bytes);
      length += bytes;
    }
    std::memset(b.to.data(), 0, length + 1);
    queue.post(MLX5_OPCODE_UMR, 0, key.number, umr_of(pieces));
    queue.post(MLX5_OPCODE_RDMA_WRITE, signaled | fenced, 0,
               rdma_of(b.to.at(), b.to.mr()->rkey, {0, length, key.number}));
    queue.ring();
    EQUAL_FATAL(queue.wait().opcode, MLX5_CQE_REQ);
    EQUAL_FATAL(std::memcmp(b.to.data(), wanted.data(), length), 0);
    EQUAL_FATAL(b.to.data()[length], 0);
    blocks += 2 + (count + 3) / 4 + 1;
    laps = blocks / queue.blocks();
  }
}

// RFC 3720, B.4: bit by bit.
uint32_t crc32c(const uint8_t* data, std::size_t bytes) {
  uint32_t crc = ~0u;
  for (std::size_t i = 0; i < bytes; i++) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

class Psv {
 public:
  explicit Psv(ibv_pd* pd) {
    prm::CreatePsvIn in{};
    in.hdr.opcode = be16{prm::cmd::create_psv};
    in.count_pd = be32{1u << 28 | number_of(pd)};
    prm::CreatePsvOut out{};
    object_ = mlx5dv_devx_obj_create(context(), &in, sizeof in, &out, sizeof out);
    CU_ASSERT_FATAL(object_ != nullptr);
    number = out.psv[0].host() & 0xffffff;
  }
  ~Psv() { EQUAL(mlx5dv_devx_obj_destroy(object_), 0); }
  Psv(const Psv&) = delete;
  Psv& operator=(const Psv&) = delete;
  uint32_t number = 0;

 private:
  mlx5dv_devx_obj* object_ = nullptr;
};

// The PSV's start, and a key whose data have a CRC-32C behind them on the wire.
void post_signing(Queue& queue, const FreeKey& key, const Psv& psv,
                  const std::vector<ibv_sge>& pieces) {
  prm::SetPsvSeg set{};
  set.psv = be32{psv.number};
  set.signature = be64{uint64_t{~0u} << 32};
  queue.post(MLX5_OPCODE_SET_PSV, 0, 0, Body{}.add(set));
  prm::Bsf bsf{};
  bsf.size_sbs = prm::bsf::size_extended;
  bsf.check_mask = 0xff;
  bsf.raw_data_size = be32{data_bytes};
  bsf.init_size = be32{prm::bsf::wire_begins | prm::bsf::wire_checks};
  bsf.wire_transaction = be32{uint32_t{prm::bsf::crc32c} << 24 | psv.number};
  queue.post(MLX5_OPCODE_UMR, fenced, key.number, umr_of(pieces, &bsf));
}

void signatures_written_by_hand_are_made_and_checked() {
  Bench b;
  Queue queue(b.pd);
  const FreeKey key(b.pd, true);
  const Psv psv(b.pd);
  const std::vector<ibv_sge> pieces{b.from.sge(0, 1000), b.from.sge(2000, data_bytes - 1000)};
  std::vector<uint8_t> data(data_bytes);
  std::memcpy(data.data(), b.from.data(), 1000);
  std::memcpy(data.data() + 1000, b.from.data() + 2000, data_bytes - 1000);
  const uint32_t crc = crc32c(data.data(), data.size());
  post_signing(queue, key, psv, pieces);
  queue.post(MLX5_OPCODE_RDMA_WRITE, signaled | fenced, 0,
             rdma_of(b.to.at(), b.to.mr()->rkey, {0, data_bytes + 4, key.number}));
  queue.ring();
  EQUAL_FATAL(queue.wait().opcode, MLX5_CQE_REQ);
  CU_ASSERT(std::memcmp(b.to.data(), data.data(), data.size()) == 0);
  uint32_t made = 0;
  std::memcpy(&made, b.to.data() + data_bytes, sizeof made);
  CU_ASSERT(le32toh(made) == crc || be32toh(made) == crc);
  // What comes back is checked; one bit is wrong the second time.
  for (const bool spoilt : {false, true}) {
    if (spoilt) b.to.data()[77] ^= 1;
    post_signing(queue, key, psv, pieces);
    queue.post(MLX5_OPCODE_RDMA_READ, signaled | fenced, 0,
               rdma_of(b.to.at(), b.to.mr()->rkey, {0, data_bytes + 4, key.number}));
    queue.ring();
    Entry e = queue.wait();
    if (spoilt) {
      EQUAL(e.opcode, MLX5_CQE_SIG_ERR);
      EQUAL(e.mkey, key.number);
      e = queue.wait();
    }
    EQUAL(e.opcode, MLX5_CQE_REQ);
  }
}

// What SPDK's counterpart would be told.
void a_key_that_is_free_serves_nobody() {
  Bench b;
  Queue queue(b.pd);
  const FreeKey key(b.pd);
  queue.post(MLX5_OPCODE_RDMA_WRITE, signaled, 0,
             rdma_of(b.to.at(), b.to.mr()->rkey, {0, 64, key.number}));
  queue.ring();
  const Entry e = queue.wait();
  EQUAL(e.opcode, MLX5_CQE_REQ_ERR);
  EQUAL(e.syndrome, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
}

constexpr Case cases[] = {
    {"UMRs that are written by hand gather, around the ring's end too",
     umrs_written_by_hand_gather},
    {"signatures that are written by hand are made and checked",
     signatures_written_by_hand_are_made_and_checked},
    {"a key that is free serves nobody", a_key_that_is_free_serves_nobody},
};

}  // namespace
}  // namespace hand_written_ut

std::span<const Case> hand_written_cases() {
  return hand_written_ut::cases;
}

}  // namespace kilim::test
