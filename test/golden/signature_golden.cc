// SPDX-License-Identifier: BSD-3-Clause
// The WQEs with which Kilim makes a key's blocks signed, changes and ends that, are those that
// libmlx5 writes for the same rule: random rules, byte for byte, the queue pair's number aside.
// Both queues work on one key and its PSVs.
#include <random>

#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/umr/signature.hh"
#include "twins_fixture.hh"
#include "ut.hh"

namespace signature_golden_ut {
namespace {

using namespace kilim;
using test::first_difference;
using test::GoldenQp;
using test::Twins;
using umr::SignBlock;
using umr::SignDomain;
using umr::SignEscape;
using umr::SignKind;

struct Request {
  std::vector<ibv_sge> sges;
  umr::SignRule rule;
};

SignDomain random_domain(std::mt19937_64& random) {
  constexpr SignBlock blocks[] = {SignBlock::bytes_512, SignBlock::bytes_520, SignBlock::bytes_4048,
                                  SignBlock::bytes_4096, SignBlock::bytes_4160};
  SignDomain d;
  d.kind = static_cast<SignKind>(random() % 6);
  if (d.kind == SignKind::none) return d;
  d.block = blocks[random() % 5];
  d.ones = random() % 2 != 0;
  if (!d.dif()) return d;
  d.app_tag = static_cast<uint16_t>(random());
  d.ref_tag = static_cast<uint32_t>(random());
  d.count_ref = random() % 2 != 0;
  d.escape = static_cast<SignEscape>(random() % 3);
  return d;
}

Request random_request(std::mt19937_64& random) {
  Request r;
  const std::size_t n = 1 + random() % (random() % 4 == 0 ? umr::max_signed_klms : 6);
  for (std::size_t i = 0; i < n; i++)
    r.sges.push_back(
        {random(), static_cast<uint32_t>(1 + random() % 65536), static_cast<uint32_t>(random())});
  do {
    r.rule.memory = random_domain(random);
    r.rule.wire = random() % 2 != 0 ? r.rule.memory : random_domain(random);
  } while (r.rule.memory.kind == SignKind::none && r.rule.wire.kind == SignKind::none);
  if (r.rule.wire.dif() && random() % 2 != 0) r.rule.wire.app_tag ^= 1;
  if (r.rule.wire.dif() && random() % 2 != 0) r.rule.wire.ones = !r.rule.wire.ones;
  r.rule.check = static_cast<uint8_t>(random());
  r.rule.has_copy = umr::detail::same_blocks(r.rule.memory, r.rule.wire) && random() % 2 != 0;
  r.rule.copy = static_cast<uint8_t>(random());
  return r;
}

// A domain in libmlx5's words.
struct DvDomain {
  mlx5dv_sig_t10dif dif{};
  mlx5dv_sig_crc crc{};
  mlx5dv_sig_block_domain domain{};

  explicit DvDomain(const SignDomain& d) {
    domain.block_size = d.block == SignBlock::bytes_512    ? MLX5DV_BLOCK_SIZE_512
                        : d.block == SignBlock::bytes_520  ? MLX5DV_BLOCK_SIZE_520
                        : d.block == SignBlock::bytes_4048 ? MLX5DV_BLOCK_SIZE_4048
                        : d.block == SignBlock::bytes_4096 ? MLX5DV_BLOCK_SIZE_4096
                                                           : MLX5DV_BLOCK_SIZE_4160;
    if (d.dif()) {
      dif.bg_type = d.kind == SignKind::t10dif_crc ? MLX5DV_SIG_T10DIF_CRC : MLX5DV_SIG_T10DIF_CSUM;
      dif.bg = d.ones ? 0xffff : 0;
      dif.app_tag = d.app_tag;
      dif.ref_tag = d.ref_tag;
      dif.flags = static_cast<uint16_t>(
          (d.count_ref ? MLX5DV_SIG_T10DIF_FLAG_REF_REMAP : 0) |
          (d.escape == SignEscape::app       ? MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE
           : d.escape == SignEscape::app_ref ? MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE
                                             : 0));
      domain.sig_type = MLX5DV_SIG_TYPE_T10DIF;
      domain.sig.dif = &dif;
      return;
    }
    const bool wide = d.kind == SignKind::crc64_xp10;
    crc.type = wide                        ? MLX5DV_SIG_CRC_TYPE_CRC64_XP10
               : d.kind == SignKind::crc32 ? MLX5DV_SIG_CRC_TYPE_CRC32
                                           : MLX5DV_SIG_CRC_TYPE_CRC32C;
    crc.seed = !d.ones ? 0 : wide ? UINT64_MAX : UINT32_MAX;
    domain.sig_type = MLX5DV_SIG_TYPE_CRC;
    domain.sig.crc = &crc;
  }
};

struct Signed : Twins {
  mlx5dv_mkey* plain = nullptr;
  umr::SignedKey psvs;

  explicit Signed(const char* name) : Twins(name) {
    if (!ok()) return;
    plain = key;
    mlx5dv_mkey_init_attr attr{};
    attr.pd = device.pd;
    attr.create_flags =
        MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
    attr.max_entries = max_entries;
    key = mlx5dv_create_mkey(&attr);
  }
  ~Signed() {
    if (plain != nullptr) mlx5dv_destroy_mkey(plain);
  }

  int by_libmlx5(Request& r, bool reset = false) {
    ibv_wr_start(theirs->ex);
    theirs->ex->wr_id = 1;
    theirs->ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    mlx5dv_mkey_conf_attr conf{};
    if (reset) conf.conf_flags = MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR;
    mlx5dv_wr_mkey_configure(theirs->dv, key, reset ? 2 : 3, &conf);
    mlx5dv_wr_set_mkey_access_flags(theirs->dv, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    mlx5dv_wr_set_mkey_layout_list(theirs->dv, static_cast<uint16_t>(r.sges.size()), r.sges.data());
    DvDomain memory{r.rule.memory}, wire{r.rule.wire};
    mlx5dv_sig_block_attr attr{};
    if (r.rule.memory.kind != SignKind::none) attr.mem = &memory.domain;
    if (r.rule.wire.kind != SignKind::none) attr.wire = &wire.domain;
    attr.check_mask = r.rule.check;
    attr.copy_mask = r.rule.copy;
    if (r.rule.has_copy) attr.flags = MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK;
    if (!reset) mlx5dv_wr_set_mkey_sig_block(theirs->dv, &attr);
    return ibv_wr_complete(theirs->ex);
  }
  Outcome by_kilim(const Request& r, bool reset = false) {
    std::vector<umr::Piece> pieces;
    for (const ibv_sge& s : r.sges) pieces.push_back({s.addr, s.length, Lkey{s.lkey}});
    queue::WqeCursor c{*sq};
    const umr::ListRequest request{
        .key = Lkey{key->lkey},
        .max_entries = max_entries,
        .new_tag = tag_of(Lkey{key->lkey}),
        .access = umr::mkey_access(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
        .unsign = reset};
    const umr::UmrWr wr{.flags = queue::WrFlags::signalled};
    const umr::View view = umr::View::of(pieces);
    const Outcome o =
        reset ? umr_list(c, request, view, wr) : umr_signed(c, request, view, {r.rule, psvs}, wr);
    if (o.ok()) c.commit();
    return o;
  }
  // What libmlx5 has in its PSVs' places; learnt from its own bytes.
  void learn_psvs() {
    Request both;
    both.sges = {{0x1000, 512, 5}};
    both.rule.memory.kind = both.rule.wire.kind = SignKind::crc32;
    EQUAL_FATAL(by_libmlx5(both), 0);
    EQUAL_FATAL(theirs->wait(), IBV_WC_SUCCESS);
    const std::vector<uint8_t> wqe = theirs->blocks(first, 4);
    prm::Bsf b;
    std::memcpy(&b, wqe.data() + 192, sizeof(b));
    psvs.memory_psv = prm::bsf::mem_psv::get(b);
    psvs.wire_psv = prm::bsf::wire_psv::get(b);
    CU_ASSERT_TRUE_FATAL(psvs.memory_psv != 0);
    CU_ASSERT_TRUE_FATAL(psvs.wire_psv != 0);
    CU_ASSERT_TRUE_FATAL(by_kilim(both).ok());
    EQUAL_FATAL(ours->wait(), IBV_WC_SUCCESS);
  }
  // Of each SET_PSV the queue pair's number, and what lies behind its 32 bytes: libmlx5 leaves
  // there what lay in the ring.
  static void blank(std::vector<uint8_t>& blocks) {
    for (std::size_t at = 0; at + 64 <= blocks.size(); at += 64) {
      if (blocks[at + 3] != 0x20 || blocks[at + 7] != 2) continue;
      std::memset(blocks.data() + at + 4, 0, 3);
      std::memset(blocks.data() + at + 12, 0, 4);
      std::memset(blocks.data() + at + 32, 0, 32);
    }
  }
  void compare(std::size_t least) {
    auto [libmlx5, kilim] = posted();
    blank(libmlx5);
    blank(kilim);
    CU_ASSERT_TRUE_FATAL(libmlx5.size() >= least);
    EQUAL_FATAL(first_difference(libmlx5, kilim), -1);
  }
};

void random_rules() {
  Signed t{"sig0"};
  CU_ASSERT_TRUE_FATAL(t.ok());
  t.learn_psvs();
  t.compare(6 * 64);
  std::mt19937_64 random{45};
  for (uint32_t i = 0; i < 400; i++) {
    Request r = random_request(random);
    const bool reset = i % 8 == 7;
    const auto counter = static_cast<uint16_t>(t.first);
    EQUAL_FATAL(t.by_libmlx5(r, reset), 0);
    EQUAL_FATAL(t.theirs->wait(), IBV_WC_SUCCESS);
    CU_ASSERT_TRUE_FATAL(t.by_kilim(r, reset).ok());
    EQUAL_FATAL(t.ours->wait(), IBV_WC_SUCCESS);
    const uint32_t end = t.theirs->posted();
    t.compare(192);
    t.sq->retire(reset ? counter : static_cast<uint16_t>(end - 1));
  }
}

void both_refuse_what_is_too_long() {
  Signed t{"sig1"};
  CU_ASSERT_TRUE_FATAL(t.ok());
  Request r;
  r.sges.assign(49, {0x1000, 16, 5});
  r.rule.memory.kind = SignKind::crc32;
  EQUAL(t.by_libmlx5(r), ENOMEM);
  const Outcome o = t.by_kilim(r);
  EQUAL(o.why, Refusal::too_many_inline);
  EQUAL(o.limit, 48);
  r.sges.resize(1);
  r.rule.has_copy = true;
  EQUAL(t.by_kilim(r).why, Refusal::copies_nothing);
  r.rule.memory.kind = SignKind::none;
  EQUAL(t.by_kilim(r).why, Refusal::unsigned_rule);
  EQUAL(t.ours->posted(), 0);
}

void wrong_block_by_libmlx5(Signed& t, uint32_t rkey, uint64_t to) {
  ibv_wr_start(t.theirs->ex);
  t.theirs->ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(t.theirs->ex, rkey, to);
  ibv_wr_set_sge(t.theirs->ex, t.key->lkey, 0, 512);
  EQUAL(ibv_wr_complete(t.theirs->ex), 0);
  EQUAL(t.theirs->wait(), IBV_WC_SUCCESS);
  mlx5dv_mkey_err error{};
  EQUAL(mlx5dv_mkey_check(t.key, &error), 0);
  EQUAL(error.err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
}

void wrong_block_by_kilim(Signed& t, uint32_t rkey, uint64_t to) {
  t.psvs.note_error();
  queue::WqeCursor c{*t.sq};
  CU_ASSERT_TRUE(queue::rdma_write(c, {to, Rkey{rkey}}, {0, 512, Lkey{t.key->lkey}},
                                   {.flags = queue::WrFlags::signalled}));
  c.commit();
  EQUAL(t.ours->wait(), IBV_WC_SUCCESS);
  (void)t.posted();
}

// By its number's lowest bit the card knows an error from the one before.
void errors_are_counted() {
  Signed t{"sig2"};
  CU_ASSERT_TRUE_FATAL(t.ok());
  t.learn_psvs();
  t.compare(6 * 64);
  std::vector<uint8_t> memory(4096, 7);
  ibv_mr* mr = ibv_reg_mr(t.device.pd, memory.data(), memory.size(),
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  const auto at = reinterpret_cast<uint64_t>(memory.data());
  Request r;
  r.sges = {{at, 516, mr->lkey}};
  r.rule.memory.kind = SignKind::crc32;
  r.rule.check = umr::SignMask::crc32;
  for (int i = 0; i < 3; i++) {
    EQUAL(t.by_libmlx5(r), 0);
    EQUAL(t.theirs->wait(), IBV_WC_SUCCESS);
    CU_ASSERT_TRUE(t.by_kilim(r).ok());
    EQUAL(t.ours->wait(), IBV_WC_SUCCESS);
    t.compare(4 * 64);
    // A block whose guard is wrong goes out; both read of it.
    wrong_block_by_libmlx5(t, mr->rkey, at + 2048);
    wrong_block_by_kilim(t, mr->rkey, at + 2048);
  }
  EQUAL(ibv_dereg_mr(mr), 0);
}

const kilim::test::Case cases[] = {
    {"400 random rules and their ends are as libmlx5 writes them, byte for byte", random_rules},
    {"errors are counted as libmlx5 does", errors_are_counted},
    {"what is too long or makes no sense is refused", both_refuse_what_is_too_long},
};

}  // namespace
}  // namespace signature_golden_ut

KILIM_TEST_SUITE(signature, signature_golden_ut::cases)
