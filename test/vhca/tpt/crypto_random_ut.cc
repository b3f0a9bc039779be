// SPDX-License-Identifier: BSD-3-Clause
// Keys whose bytes are encrypted: random orders, units, signatures, layouts and transfers against
// OpenSSL, on one adapter and over a wire.
#include <algorithm>
#include <random>

#include "crypto_fixture.hh"
#include "ut.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {
namespace crypto_random_ut {
namespace {

enum class Move : uint8_t { write, read, write_to, read_from, send, receive };
constexpr unsigned moves = 6;
constexpr bool key_is_there(Move m) {
  return m == Move::write_to || m == Move::read_from || m == Move::receive;
}
constexpr bool leaves_key(Move m) {
  return m == Move::write || m == Move::read_from || m == Move::send;
}

class Trial {
 public:
  Trial(CryptoEnd& here, CryptoEnd& there, uint64_t seed)
      : here_(here), there_(there), random_(seed) {}

  // True: all was as the reference says.
  bool round(Move move) {
    CryptoEnd& mine = key_is_there(move) ? there_ : here_;
    CryptoEnd& other = key_is_there(move) ? here_ : there_;
    Encryption e = any_encryption();
    const bool signs = any(2) != 0;
    Layout l = signs ? any_layout(e) : Layout{};
    Bytes memory, wire;
    // As many data as whole blocks of a unit are.
    do {
      Bytes data(16 * (1 + any(any(4) == 0 ? 1200 : 300)));
      if (any(2) == 0) data.resize((any(6) + 1) * std::max(l.mem.block, l.wire.block));
      for (uint8_t& b : data) b = static_cast<uint8_t>(random_());
      memory = join(l.mem, data);
      wire = join(l.wire, data);
    } while (!fits(e, e.by_memory() ? memory : wire));
    if (e.by_memory())
      memory = e.xts.run(memory, !e.encrypts_tx());
    else
      wire = e.xts.run(wire, e.encrypts_tx());
    e.dek = make_dek(mine.rig, e.xts.keys);
    const bool out = leaves_key(move);
    const std::vector<prm::Klm> list = any_pieces(mine, memory.size());
    scatter(mine, list, out ? &memory : nullptr);
    std::memset(other.buffer.data(), 0, wire.size() + 16);
    if (!out) std::memcpy(other.buffer.data(), wire.data(), wire.size());
    if (mine.encrypt(e, signs ? &l : nullptr, list, memory.size()) != Syndrome::none) return false;
    if (!transfer(move, mine, wire.size())) return false;
    if (!mine.rig.hca->keys.deks().at(e.dek)) return false;
    mine.rig.hca->keys.deks().destroy(e.dek);
    return out ? Bytes(bytes(other), bytes(other) + wire.size()) == wire : gather(list) == memory;
  }

 private:
  static uint8_t* bytes(End& e) { return reinterpret_cast<uint8_t*>(e.buffer.data()); }
  uint32_t any(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  // mlx5dv_wr_set_mkey_crypto(3): which sizes a job may have.
  static bool fits(const Encryption& e, const Bytes& stream) {
    const std::size_t n = stream.size(), rest = n % e.xts.unit;
    return n > 0 && n < 60000 && (rest == 0 || (rest % 16 == 0 && rest <= e.xts.unit - 16));
  }
  Encryption any_encryption() {
    constexpr uint32_t units[] = {512, 520, 4048, 4096, 4160, 1u << 20};
    Encryption e;
    e.order = static_cast<uint8_t>(any(4));
    e.xts.unit = units[any(2) == 0 ? any(2) : any(6)];
    e.xts.keys.resize(any(2) == 0 ? 32 : 64);
    for (uint8_t& b : e.xts.keys) b = static_cast<uint8_t>(random_());
    for (uint8_t& b : e.xts.number) b = any(3) == 0 ? 0xff : static_cast<uint8_t>(random_());
    return e;
  }
  Domain any_domain() {
    Domain d;
    d.sign = static_cast<Sign>(1 + any(5));
    d.block = any(2) == 0 ? 512 : 4096;
    d.ref = any(0xffffffff);
    return d;
  }
  // Raw orders do not go with signatures in both domains.
  Layout any_layout(const Encryption& e) {
    Layout l;
    const bool raw = e.order >= crypto::raw_wire;
    const uint32_t which = raw ? any(3) : any(4);
    if (which == 1 || which == 3) l.mem = any_domain();
    if (which == 2 || which == 3) l.wire = any_domain();
    return l;
  }
  std::vector<prm::Klm> any_pieces(End& e, std::size_t total) {
    std::vector<prm::Klm> list;
    for (std::size_t at = 0, i = 0; at < total; i++) {
      const std::size_t left = total - at;
      const std::size_t n = i == 3 ? left : std::min<std::size_t>(left, 1 + any(9000));
      list.push_back(klm(e.arena.at(i * 65536 + any(700)), static_cast<uint32_t>(n), e.pieces));
      at += n;
    }
    return list;
  }
  static void scatter(End& e, std::span<const prm::Klm> list, const Bytes* from) {
    std::memset(e.arena.data(), 0x5a, e.arena.size());
    std::size_t at = 0;
    for (const prm::Klm& k : list) {
      const uint32_t n = k.byte_count.host();
      if (from != nullptr)
        std::memcpy(reinterpret_cast<void*>(k.address.host()), from->data() + at, n);
      at += n;
    }
  }
  static Bytes gather(std::span<const prm::Klm> list) {
    Bytes to;
    for (const prm::Klm& k : list) {
      const auto* p = reinterpret_cast<const uint8_t*>(k.address.host());
      to.insert(to.end(), p, p + k.byte_count.host());
    }
    return to;
  }

  // In one to three requests, one behind the other, wherever they begin.
  bool transfer(Move move, End& mine, std::size_t total) {
    std::size_t at = 0;
    for (unsigned left = 1 + any(3); at < total; left--) {
      const std::size_t rest = total - at;
      const std::size_t n = left <= 1 ? rest : 1 + any(static_cast<uint32_t>(rest));
      if (!part(move, mine.key, at, static_cast<uint32_t>(n))) return false;
      at += n;
    }
    mine.take_errors();
    return mine.errors.empty();
  }
  bool part(Move move, uint32_t key, std::size_t at, uint32_t n) {
    const uint64_t ours = here_.buffer.at(at), theirs = there_.buffer.at(at);
    switch (move) {
      case Move::write:
        return done(Wqe(Opcode::rdma_write).raddr(theirs, there_.plain).data(at, n, key));
      case Move::read:
        return done(Wqe(Opcode::rdma_read).raddr(theirs, there_.plain).data(at, n, key));
      case Move::write_to:
        return done(Wqe(Opcode::rdma_write).raddr(at, key).data(ours, n, here_.plain));
      case Move::read_from:
        return done(Wqe(Opcode::rdma_read).raddr(at, key).data(ours, n, here_.plain));
      case Move::send:
        there_.qp.recv(theirs, n, there_.plain);
        return done(Wqe(Opcode::send).data(at, n, key)) && there_.wait().has_value();
      case Move::receive:
        there_.qp.recv(at, n, key);
        return done(Wqe(Opcode::send).data(ours, n, here_.plain)) && there_.wait().has_value();
    }
    return false;
  }
  bool done(const Wqe& w) {
    here_.qp.put(w);
    here_.qp.ring(here_.rig.uar);
    for (int i = 0; i < 2'000'000; i++) {
      there_.rig.run();
      here_.rig.hca->run();
      if (std::optional<Completion> c = here_.cq.poll()) return c->syndrome == Syndrome::none;
    }
    return false;
  }

  CryptoEnd &here_, &there_;
  std::mt19937_64 random_;
};

void run_trial(CryptoEnd& here, CryptoEnd& there, unsigned rounds, uint64_t seed) {
  CU_ASSERT_TRUE_FATAL(here.only != 0);
  CU_ASSERT_TRUE_FATAL(there.both != 0);
  Trial t{here, there, seed};
  for (unsigned i = 0; i < rounds; i++) CU_ASSERT_TRUE_FATAL(t.round(static_cast<Move>(i % moves)));
}

void random_keys_on_one_adapter() {
  Rig rig;
  CryptoEnd here{rig, rig.a, rig.cq_a}, there{rig, rig.b, rig.cq_b};
  run_trial(here, there, 1200, 7);
}

void random_keys_over_a_wire() {
  WireRig w;
  CryptoEnd here{w.left, w.left.a, w.left.cq_a}, there{w.right, w.right.a, w.right.cq_a};
  run_trial(here, there, 200, 8);
}

void random_keys_over_a_bad_wire() {
  LinkShape s;
  s.left_wire = "+fault:drop:0.02:dup:0.02:reorder:0.02:seed:3";
  s.right_wire = "+fault:drop:0.02:dup:0.02:reorder:0.02:seed:4";
  WireRig w{s};
  CryptoEnd here{w.left, w.left.a, w.left.cq_a}, there{w.right, w.right.a, w.right.cq_a};
  run_trial(here, there, 60, 9);
}

const kilim::test::Case cases[] = {
    {"1200 random encrypted layouts on one adapter", random_keys_on_one_adapter},
    {"200 random encrypted layouts over a wire", random_keys_over_a_wire},
    {"60 random encrypted layouts over a wire that loses, doubles and swaps",
     random_keys_over_a_bad_wire},
};

}  // namespace
}  // namespace crypto_random_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(crypto_random, kilim::vhca::test::crypto_random_ut::cases)
