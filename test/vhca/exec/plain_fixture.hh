// SPDX-License-Identifier: BSD-3-Clause
// One adapter with the keys that tests of the straight way use. Owner: one test case.
#pragma once

#include <random>

#include "ut.hh"
#include "vhca/hca/hca.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

inline constexpr uint32_t region_bytes = 16384;

// Who observes an adapter: nobody, a journal, or a fault that is to strike some day.
struct Observer {
  Journal* journal = nullptr;
  uint64_t fatal_at = 0;
};

inline RigShape shape_of(uint64_t seed, const Observer& observer) {
  RigShape s;
  s.a.sq_wqebbs = 64;
  s.cq_entries = 64;
  s.seed = seed;
  s.fatal_at = observer.fatal_at;
  s.journal = observer.journal;
  s.lint = lint::LintMode::off;
  s.order = {};
  return s;
}

// Two regions, and keys by their places: of the regions, of parts of them, bound ones.
struct Side {
  enum Place : uint32_t {
    whole_src,
    whole_dst,
    readable,
    fixed,
    foreign,
    half,
    list_memory,
    bound
  };
  static constexpr std::array<uint32_t, 3> capacities = {16, 16, 72};

  Side(uint64_t seed, bool general, const Observer& observer = {})
      : rig(shape_of(seed, observer)), src(region_bytes), dst(region_bytes), lists(4096) {
    rig.hca->straight = !general;
    std::minstd_rand r(static_cast<unsigned>(seed));
    for (std::size_t i = 0; i < region_bytes; i++) src.data()[i] = static_cast<std::byte>(r());
    keys = {rig.reg(src, rw_access).lkey.value(), rig.reg(dst, rw_access).lkey.value(),
            rig.reg(src, access::remote_read).lkey.value(), rig.make_key(4)};
    const MrSpec strange{*hca::alloc_pd(*rig.hca), src.va(), region_bytes, Iova{src.at(0)},
                         rw_access};
    keys[foreign] = hca::reg_mr(*rig.hca, strange)->lkey.value();
    keys[half] = rig.reg(dst.va(), region_bytes / 2, rw_access).lkey.value();
    keys[list_memory] = rig.reg(lists, rw_access).lkey.value();
    for (uint32_t i = 0; i < capacities.size(); i++) keys[bound + i] = rig.make_key(capacities[i]);
    const UmrShape list{.len = region_bytes};
    const prm::Klm piece = klm(dst.at(0), region_bytes, keys[whole_dst]);
    (void)rig.run_one(rig.a, umr_wqe(keys[fixed], list, {&piece, 1}));
  }
  // How the requests of the last turn went.
  [[nodiscard]] uint64_t work() { return rig.hca->work_since_clock; }
  [[nodiscard]] const Journal& journal() { return *rig.hca->context.journal; }
  [[nodiscard]] const tpt::Mkey& key(uint32_t place) { return *rig.hca->keys.at(keys[place] >> 8); }
  // Where a direct key's memory is; offsets are addresses of the others.
  [[nodiscard]] uint64_t address_of(uint32_t place, uint64_t offset) const {
    if (place == fixed || place >= bound) return offset;
    return place == whole_dst || place == half ? dst.at(offset) : src.at(offset);
  }

  Rig rig;
  Pages src, dst, lists;
  std::array<uint32_t, bound + 3> keys{};
};

inline void begin_again(TestQp& qp, Rig& rig, Qpn peer) {
  (void)rig.to_state(qp, QpState::reset);
  qp.pi = qp.head = 0;
  std::memset(qp.record.data(), 0, 8);
  rig.to_rts(qp, peer);
}

inline void begin_again(Side& s) {
  begin_again(s.rig.a, s.rig, s.rig.b.qpn);
  begin_again(s.rig.b, s.rig, s.rig.a.qpn);
}

// Posts it behind what was put before; the work of the turn, whose last completion has to be good.
inline uint64_t work_of(Side& s, const Wqe& w) {
  s.rig.a.put(w);
  s.rig.a.ring(s.rig.uar);
  (void)s.rig.hca->run();
  const uint64_t work = s.work();
  const std::optional<Completion> c = s.rig.cq_a.poll();
  CU_ASSERT(c.has_value() && c->op == prm::CqeOpcode::req);
  return work;
}

// Parts of plain_ut: long lists at either end; SENDs and atomics.
void long_lists_are_read_as_they_are();
void sends_and_atomics_go_the_straight_way();
void the_straight_way_asks_what_the_general_way_asks();
// Random requests and changes of keys, on an adapter that is kept from the straight way too.
void both_ways_do_the_same();
// Random requests, on adapters that are observed and on one that is not.
void observers_change_nothing();

}  // namespace kilim::vhca::test
