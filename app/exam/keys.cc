// SPDX-License-Identifier: BSD-3-Clause
// E20, E21, E25 to E27: what may be done with keys: invalidation, windows, atomics, paging.
#include <cstring>
#include <string>

#include <endian.h>
#include <sys/mman.h>

#include "question.hh"
#include "umr.hh"

namespace kilim::exam {
namespace {

constexpr std::size_t region = 8192;

struct Bench {
  Device d;
  Loop l;
  uint8_t* at;
  ibv_mr* mr;

  Bench(const Setting& setting, Answer& answer)
      : d(open_device(setting, answer)),
        l(make_loop(d)),
        at(d.pages(region)),
        mr(d.reg(at, region)) {}
  std::string post(const Wqe& wqe, double seconds = 3) {
    l.a.sq.post(wqe);
    const auto done = l.a.sent.next(seconds);
    return done ? done->text() : "no completion";
  }
  // A key over the first two pieces of `bytes`, 4 KiB from each other.
  mlx5dv_mkey* pieces(uint32_t bytes, Answer& answer) {
    mlx5dv_mkey* key = make_key(d, 4);
    const std::string bound = post(
        umr(covering(d, key, {klm(at, bytes, mr->lkey), klm(at + region / 2, bytes, mr->lkey)})));
    if (bound != "ok") answer.not_run("a key is not bound: " + bound);
    return key;
  }
  void again() { l = make_loop(d); }
};

void ask_invalidate(const Setting& setting, Answer& answer) {
  Bench b(setting, answer);
  mlx5dv_mkey* key = b.pieces(64, answer);
  const std::string own = b.post({.opcode = MLX5_OPCODE_LOCAL_INVAL, .imm = key->lkey, .body = {}});
  answer.fact("LOCAL_INV", own);
  const bool taken = own == "ok";
  if (!taken) b.again();
  const std::string use = b.post(rdma_write(nullptr, 64, key->lkey, place(b.at + 64), b.mr->rkey));
  answer.fact("use behind it", use);
  b.again();
  key = b.pieces(64, answer);
  b.l.b.receive(b.at + 512, 64, b.mr->lkey);
  Wqe inv = send(b.at, 8, b.mr->lkey);
  inv.opcode = MLX5_OPCODE_SEND_INVAL;
  inv.imm = key->rkey;
  answer.fact("SEND_WITH_INV, sender", b.post(inv));
  const auto got = b.l.b.received.next(1);
  answer.fact("SEND_WITH_INV, receiver", got ? got->text() : "no completion");
  answer.verdict(taken && use != "ok" ? "free afterwards"
                 : taken              ? "usable afterwards"
                                      : "refused");
}

constexpr Meaning invalidate_means[] = {
    {"free afterwards", "a key of UMRs may be invalidated by its own queue"},
    {"usable afterwards", "LOCAL_INV does nothing to such a key: it is no protection"},
    {"refused", "keys of UMRs are unbound by UMR alone"},
};

// IBV_WR_BIND_MW by verbs: windows have no other way.
std::string bind(Bench& b, ibv_mw* mw, uint32_t rkey, uint64_t bytes, ibv_mr* mr) {
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.bind_mw = {mw, rkey, {mr, place(b.at), bytes, IBV_ACCESS_REMOTE_READ}};
  if (const int rc = ibv_post_send(b.l.a.qp, &wr, &bad); rc != 0) return errno_name(rc);
  const auto done = b.l.a.sent.next(3);
  return done ? done->text() : "no completion";
}

void ask_windows(const Setting& setting, Answer& answer) {
  Bench b(setting, answer);
  ibv_mr* mr = b.d.reg(b.at, region, Device::all_access | IBV_ACCESS_MW_BIND);
  ibv_mw* mw = ibv_alloc_mw(b.d.pd, IBV_MW_TYPE_2);
  if (mw == nullptr)
    return answer.fact("a window", errno_name(errno_now())), answer.verdict("no windows");
  const uint32_t first_key = ibv_inc_rkey(mw->rkey);
  const std::string first = bind(b, mw, first_key, 64, mr);
  answer.fact("first bind", first);
  answer.fact("second bind", bind(b, mw, ibv_inc_rkey(first_key), 64, mr));
  b.again();
  ibv_mw* other = ibv_alloc_mw(b.d.pd, IBV_MW_TYPE_2);
  if (other != nullptr)
    answer.fact("beyond the region", bind(b, other, ibv_inc_rkey(other->rkey), region * 2, mr));
  b.again();
  ibv_mw* third = ibv_alloc_mw(b.d.pd, IBV_MW_TYPE_2);
  if (third != nullptr)
    answer.fact("over a region without MW_BIND",
                bind(b, third, ibv_inc_rkey(third->rkey), 64, b.mr));
  answer.verdict(first == "ok" ? "windows bind" : "no bind");
}

constexpr Meaning windows_mean[] = {
    {"windows bind", "windows work; the errors of wrong binds are the device's table"},
    {"no bind", "windows of type 2 are not bound by this queue: see the fact"},
    {"no windows", "programs with windows get ENOMEM or EOPNOTSUPP here, as on a virtual function"},
};

// FETCH_ADD of 1 at `offset` of the key; "ok" only if memory has it.
std::string add_one(Bench& b, uint32_t rkey, uint64_t offset, const uint8_t* where) {
  Wqe w{.opcode = MLX5_OPCODE_ATOMIC_FA, .body = {}};
  w.remote(offset, rkey);
  const uint64_t operands[2] = {htobe64(1), 0};
  w.add(operands).data(b.at + 2048, 8, b.mr->lkey);
  uint64_t before = 0, after = 0;
  std::memcpy(&before, where, sizeof before);
  std::string seen = b.post(w);
  std::memcpy(&after, where, sizeof after);
  if (seen != "ok") {
    b.again();
    return seen;
  }
  return after == before + 1 ? "ok" : "completes, memory has another number";
}

void ask_atomics(const Setting& setting, Answer& answer) {
  Bench b(setting, answer);
  const mlx5dv_mkey* key = b.pieces(68, answer);
  const std::string inside = add_one(b, key->rkey, 8, b.at + 8);
  answer.fact("of the region's key", add_one(b, b.mr->rkey, place(b.at) + 16, b.at + 16));
  answer.fact("inside an entry", inside);
  answer.fact("at 4 modulo 8", add_one(b, key->rkey, 12, b.at + 12));
  answer.fact("across two entries", add_one(b, key->rkey, 64, b.at + 64));
  answer.verdict(inside == "ok" ? "by indirect keys too" : "not by indirect keys");
}

constexpr Meaning atomics_mean[] = {
    {"by indirect keys too", "keys may have remote atomics; lists that split an operand fail"},
    {"not by indirect keys", "the library refuses atomics as an access of indirect keys"},
};

// A WRITE out of memory on demand that was never touched, directly or below a key.
std::string cold_read(Bench& b, bool below_key) {
  const std::size_t bytes = 16384;
  void* cold = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ibv_mr* mr = ibv_reg_mr(b.d.pd, cold, bytes, Device::all_access | IBV_ACCESS_ON_DEMAND);
  if (mr == nullptr) return "not registered: " + errno_name(errno_now());
  uint32_t lkey = mr->lkey;
  uint64_t from = place(cold);
  if (below_key) {
    mlx5dv_mkey* key = make_key(b.d, 4);
    const std::string bound = b.post(umr(covering(b.d, key, {klm(cold, 4096, mr->lkey)})));
    if (bound != "ok") return "not bound: " + bound;
    lkey = key->lkey;
    from = 0;
  }
  std::memset(b.at, 1, 64);
  Wqe w{.opcode = MLX5_OPCODE_RDMA_WRITE, .body = {}};
  std::string seen = b.post(w.remote(place(b.at), b.mr->rkey).data(from, 64, lkey), 5);
  if (seen != "ok") return seen;
  return b.at[0] == 0 && b.at[63] == 0 ? "ok" : "wrong data";
}

void ask_paging(const Setting& setting, Answer& answer) {
  Bench b(setting, answer);
  const std::string direct = cold_read(b, false);
  answer.fact("the region's own key", direct);
  if (direct.starts_with("not registered")) return answer.verdict("no paging");
  if (direct != "ok") b.again();
  const std::string below = cold_read(b, true);
  answer.fact("below an indirect key", below);
  answer.verdict(below == "ok"              ? "below keys too"
                 : below == "no completion" ? "hangs"
                                            : "refused below keys");
}

constexpr Meaning paging_means[] = {
    {"below keys too", "memory on demand may lie below indirect keys"},
    {"refused below keys", "layouts refuse memory on demand below indirect keys"},
    {"hangs", "layouts refuse memory on demand below indirect keys"},
    {"no paging", "memory on demand is refused with the kernel's errno"},
};

// An atomic into memory on demand: what the capability says, and what the device does.
void ask_paged_atomics(const Setting& setting, Answer& answer) {
  Bench b(setting, answer);
  const uint32_t caps = b.d.attr.odp_caps.per_transport_caps.rc_odp_caps;
  const bool claimed = (caps & IBV_ODP_SUPPORT_ATOMIC) != 0;
  auto* cold = static_cast<uint8_t*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ibv_mr* mr = ibv_reg_mr(b.d.pd, cold, 4096, Device::all_access | IBV_ACCESS_ON_DEMAND);
  if (mr == nullptr) return answer.verdict("no paging");
  Wqe w{.opcode = MLX5_OPCODE_ATOMIC_FA, .body = {}};
  w.remote(place(cold), mr->rkey);
  const uint64_t operands[2] = {htobe64(1), 0};
  const std::string seen = b.post(w.add(operands).data(b.at, 8, b.mr->lkey), 5);
  answer.fact("capability", claimed ? "yes" : "no");
  answer.fact("atomic", seen);
  answer.verdict((seen == "ok") == claimed ? claimed ? "claimed and done" : "neither"
                                           : "caps differ");
}

constexpr Meaning paged_atomics_mean[] = {
    {"claimed and done", "the profile claims paged atomics"},
    {"neither", "profile less-odp is the card: no paged atomics"},
    {"caps differ", "the capability is no promise: as rdma-core PR 1229 found on a ConnectX-6"},
    {"no paging", "profile no-odp is the card"},
};

constexpr Question rows[] = {
    {"E20", "LOCAL_INV and SEND_WITH_INV of an indirect key", 0, Disturbs::nothing, 20,
     invalidate_means, "the errors of invalidations", "--fault wqe@2", ask_invalidate},
    {"E21", "memory windows of type 2: binds that are wrong", 0, Disturbs::nothing, 20,
     windows_mean, "the errors of binds in drivers/vhca/tpt", "--profile vf", ask_windows},
    {"E25", "atomics by an indirect key", 0, Disturbs::nothing, 20, atomics_mean,
     "the errors of atomics by a list", "--fault wqe@2", ask_atomics},
    {"E26", "memory on demand below an indirect key, never touched", 0, Disturbs::nothing, 20,
     paging_means, "the errors of pages that are not there", "--profile no-odp", ask_paging},
    {"E27", "an atomic into memory on demand, against its capability", 0, Disturbs::nothing, 20,
     paged_atomics_mean, "odp_rc of the profile", "--profile less-odp", ask_paged_atomics},
};

}  // namespace

std::span<const Question> key_questions() {
  return rows;
}

}  // namespace kilim::exam
