// SPDX-License-Identifier: BSD-3-Clause
// Keys whose blocks are signed: random domains, layouts and transfers against a plain reference, on
// one adapter and over a wire, good blocks and wrong ones.
#include <algorithm>
#include <random>

#include "sign_fixture.hh"
#include "ut.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {
namespace signature_random_ut {
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
  Trial(End& here, End& there, uint64_t seed) : here_(here), there_(there), random_(seed) {}

  // True: all was as the reference says.
  bool round(Move move) {
    End& mine = key_is_there(move) ? there_ : here_;
    End& other = key_is_there(move) ? here_ : there_;
    const Layout l = any_layout();
    const bool out = leaves_key(move);
    const Domain &from = out ? l.mem : l.wire, &to = out ? l.wire : l.mem;
    Bytes data(1 + any(any(4) == 0 ? 20000 : 5000));
    if (any(3) == 0 && from.block != 0) data.resize(from.block * (1 + any(4)));
    for (uint8_t& b : data) b = static_cast<uint8_t>(random_());
    Bytes input = join(from, data);
    if (any(3) == 0) {
      uint8_t& b = input[any(static_cast<uint32_t>(input.size()))];
      b = static_cast<uint8_t>(b ^ 1u << any(8));
    }
    const Parts parts = split(from, input);
    const Bytes expected = join(to, parts.data, l.same ? bits_of(l.copy) : 0, parts.signatures);
    const Bytes &memory = out ? input : expected, &wire = out ? expected : input;
    const std::vector<prm::Klm> list = any_pieces(mine, memory.size());
    scatter(mine, list, out ? &input : nullptr);
    std::memset(other.buffer.data(), 0, wire.size() + 16);
    if (!out) std::memcpy(other.buffer.data(), wire.data(), wire.size());
    if (mine.configure(l, list, memory.size()) != Syndrome::none) return false;
    mine.errors.clear();
    if (!transfer(move, mine, wire.size())) return false;
    const Bytes got = out ? Bytes(bytes(other), bytes(other) + wire.size()) : gather(mine, list);
    return got == expected && errors_fit(mine, l, from, parts, out);
  }

 private:
  static uint8_t* bytes(End& e) { return reinterpret_cast<uint8_t*>(e.buffer.data()); }
  uint32_t any(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  Domain any_domain() {
    constexpr uint32_t blocks[] = {512, 520, 4048, 4096, 4160};
    Domain d;
    d.sign = static_cast<Sign>(any(6));
    if (d.sign == Sign::none) return d;
    d.block = blocks[any(3) == 0 ? any(5) : any(2)];
    d.ones = any(2) != 0;
    d.count_ref = any(2) != 0;
    d.app = static_cast<uint16_t>(any(0xffff));
    d.ref = any(4) == 0 ? 0xfffffffe : any(0xffffffff);
    return d;
  }
  Layout any_layout() {
    Layout l{any_domain(), any_domain()};
    if (any(2) == 0 && l.mem.sign != Sign::none) {
      const Domain own = l.wire;
      l.wire = l.mem;
      if (own.dif() && l.mem.dif()) l.wire.sign = own.sign;
      l.wire.app = own.app;
      l.wire.ref = own.ref;
      l.same = any(3) != 0;
      l.copy = static_cast<uint8_t>(any(3) == 0 ? 0 : random_());
    }
    l.check = static_cast<uint8_t>(any(2) == 0 ? 0xff : random_());
    return l;
  }
  std::vector<prm::Klm> any_pieces(End& e, std::size_t total) {
    std::vector<prm::Klm> list;
    for (std::size_t at = 0, i = 0; at < total; i++) {
      const std::size_t left = total - at;
      const std::size_t n = i == 7 ? left : std::min<std::size_t>(left, 1 + any(9000));
      list.push_back(klm(e.arena.at(i * 32768 + any(700)), static_cast<uint32_t>(n), e.pieces));
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
  static Bytes gather(End&, std::span<const prm::Klm> list) {
    Bytes to;
    for (const prm::Klm& k : list) {
      const auto* p = reinterpret_cast<const uint8_t*>(k.address.host());
      to.insert(to.end(), p, p + k.byte_count.host());
    }
    return to;
  }

  // In one to three requests, one behind the other.
  bool transfer(Move move, End& mine, std::size_t total) {
    std::size_t at = 0;
    for (unsigned left = 1 + any(3); at < total; left--) {
      const std::size_t rest = total - at;
      const std::size_t n = left <= 1 ? rest : 1 + any(static_cast<uint32_t>(rest));
      if (!part(move, mine.key, at, static_cast<uint32_t>(n))) return false;
      at += n;
    }
    mine.take_errors();
    return true;
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
      while (std::optional<Completion> c = here_.cq.poll()) {
        if (c->op != prm::CqeOpcode::sig_err) return c->syndrome == Syndrome::none;
        here_.take_error();
      }
    }
    return false;
  }

  // The first block that is wrong, if there is one, has been told of and nothing else.
  bool errors_fit(const End& mine, const Layout& l, const Domain& from, const Parts& parts,
                  bool out) {
    for (std::size_t i = 0; i < parts.signatures.size(); i++) {
      const uint64_t made = signature_of(from, i, parts.data.data() + i * from.block);
      const uint64_t wrong = (parts.signatures[i] ^ made) & bits_of(l.check);
      if (wrong == 0) continue;
      if (mine.errors.size() != 1) return false;
      const prm::SigErrCqe& e = mine.errors[0];
      uint16_t syndrome = prm::sig_err::guard;
      if (from.dif() && wrong >> 48 == 0)
        syndrome = wrong >> 32 != 0 ? prm::sig_err::app_tag : prm::sig_err::ref_tag;
      found_++;
      return e.mkey.host() == mine.key && e.syndrome.host() == syndrome && e.type == 0 &&
             e.domain == (out ? prm::sig_err::memory : prm::sig_err::wire) &&
             e.offset.host() == i * (from.block + from.bytes()) &&
             joined(e.expected_high, e.expected_low) == parts.signatures[i] &&
             joined(e.actual_high, e.actual_low) == made;
    }
    return mine.errors.empty();
  }
  static uint64_t joined(be32 high, be32 low) { return uint64_t{high.host()} << 32 | low.host(); }

 public:
  [[nodiscard]] unsigned found() const { return found_; }

 private:
  End &here_, &there_;
  std::mt19937_64 random_;
  unsigned found_ = 0;
};

void run_trial(End& here, End& there, unsigned rounds, uint64_t seed) {
  CU_ASSERT_TRUE_FATAL(here.key != 0);
  CU_ASSERT_TRUE_FATAL(there.key != 0);
  Trial t{here, there, seed};
  for (unsigned i = 0; i < rounds; i++) CU_ASSERT_TRUE_FATAL(t.round(static_cast<Move>(i % moves)));
  CU_ASSERT_TRUE(t.found() > rounds / 40);
}

void random_blocks_on_one_adapter() {
  Rig rig;
  End here{rig, rig.a, rig.cq_a}, there{rig, rig.b, rig.cq_b};
  run_trial(here, there, 2000, 7);
}

void random_blocks_over_a_wire() {
  WireRig w;
  End here{w.left, w.left.a, w.left.cq_a}, there{w.right, w.right.a, w.right.cq_a};
  run_trial(here, there, 200, 8);
}

void random_blocks_over_a_bad_wire() {
  LinkShape s;
  s.left_wire = "+fault:drop:0.02:dup:0.02:reorder:0.02:seed:3";
  s.right_wire = "+fault:drop:0.02:dup:0.02:reorder:0.02:seed:4";
  WireRig w{s};
  End here{w.left, w.left.a, w.left.cq_a}, there{w.right, w.right.a, w.right.cq_a};
  run_trial(here, there, 60, 9);
}

const kilim::test::Case cases[] = {
    {"2000 random signed layouts on one adapter", random_blocks_on_one_adapter},
    {"200 random signed layouts over a wire", random_blocks_over_a_wire},
    {"60 random signed layouts over a wire that loses, doubles and swaps",
     random_blocks_over_a_bad_wire},
};

}  // namespace
}  // namespace signature_random_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(signature_random, kilim::vhca::test::signature_random_ut::cases)
