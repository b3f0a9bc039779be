// SPDX-License-Identifier: BSD-3-Clause
// What the virtual device costs beside many objects, over what it costs beside none: a WRITE among
// queues, a completion queue that is armed among others, a piece of a long list. And SENDs and
// atomics, over WRITEs. libmlx5 posts on both sides.
#include <memory>

#include "perf/device/crowd.hh"
#include "perf/device/lines.hh"

namespace kilim::perf {
namespace {

constexpr std::size_t crowd_slot = 8;

struct Both {
  Crowd crowd, alone, keyed;
  bool open() {
    return crowd.open("crowd0").empty() && alone.open("crowd1").empty() &&
           keyed.open("crowd2").empty() && alone.grow_queues(1) && alone.grow_cqs(1) &&
           keyed.grow_queues(1);
  }
};

Both* both(Rig& r) {
  std::shared_ptr<void>& mine = r.of_lines[crowd_slot];
  if (mine == nullptr) {
    auto fresh = std::make_shared<Both>();
    if (!fresh->open()) return nullptr;
    mine = fresh;
  }
  return static_cast<Both*>(mine.get());
}
Both& made(Rig& r) {
  return *static_cast<Both*>(r.of_lines[crowd_slot].get());
}

uint32_t grow_queues(Rig& r, const Case& c) {
  Both* b = both(r);
  return b != nullptr && b->crowd.grow_queues(c.pieces) ? 1 : 0;
}
uint32_t grow_cqs(Rig& r, const Case& c) {
  Both* b = both(r);
  return b != nullptr && b->crowd.grow_cqs(c.pieces) ? 1 : 0;
}
uint32_t grow_keys(Rig& r, const Case& c) {
  Both* b = both(r);
  return b != nullptr && b->keyed.grow_keys(c.pieces) ? 1 : 0;
}
uint32_t grow_none(Rig& r, const Case&) {
  return both(r) != nullptr ? 1 : 0;
}

// Each that `post` posts with its doorbell, its turn and its completion.
template <typename Post>
uint32_t post_each(Crowd& c, Post post) {
  for (uint32_t i = 0; i < round_requests; i++) {
    if (!post(c)) return 0;
    c.poll();
    if (!c.drain()) return 0;
  }
  return round_requests;
}
uint32_t write_each(Crowd& c, std::size_t member) {
  return post_each(c, [qp = c.member(member)](Crowd& of) { return of.post_write(qp, 1); });
}
uint32_t write_in_crowd(Rig& r, const Case& c) {
  return write_each(made(r).crowd, c.pieces / 2);
}
uint32_t write_alone(Rig& r, const Case&) {
  return write_each(made(r).alone, 0);
}

uint32_t write_among_keys(Rig& r, const Case&) {
  return write_each(made(r).keyed, 0);
}
// From a region of so many bytes, and through so many keys, each over the one before.
uint32_t size_region(Rig& r, const Case& c) {
  Both* b = both(r);
  return b != nullptr && b->alone.make_region(c.pieces) ? 1 : 0;
}
uint32_t build_tower(Rig& r, const Case& c) {
  Both* b = both(r);
  return b != nullptr && b->alone.make_tower(c.pieces) ? 1 : 0;
}
template <bool (Crowd::*Post)(uint32_t)>
uint32_t write_each_by(Rig& r, const Case&) {
  return post_each(made(r).alone, [](Crowd& c) { return (c.*Post)(1); });
}
// Commands: what libmlx5 and the device's half of the kernel take.
uint32_t remake(Crowd& c) {
  for (uint32_t i = 0; i < round_requests; i++)
    if (!c.remake_key()) return 0;
  return round_requests;
}
uint32_t make_among_keys(Rig& r, const Case&) {
  return remake(made(r).keyed);
}
uint32_t make_alone(Rig& r, const Case&) {
  return remake(made(r).alone);
}

uint32_t arm_in_crowd(Rig& r, const Case& c) {
  Both& b = made(r);
  for (uint32_t i = 0; i < round_requests; i++) {
    if (ibv_req_notify_cq(b.crowd.armable(c.pieces / 2), 0) != 0) return 0;
    b.crowd.poll();
  }
  return round_requests;
}
uint32_t arm_alone(Rig& r, const Case&) {
  Both& b = made(r);
  for (uint32_t i = 0; i < round_requests; i++) {
    if (ibv_req_notify_cq(b.alone.armable(0), 0) != 0) return 0;
    b.alone.poll();
  }
  return round_requests;
}

// 32 WRITEs, a doorbell each, in as many turns or in one: what lies between is the turn.
uint32_t write_in_turns(Rig& r, const Case&) {
  Crowd& c = made(r).alone;
  for (uint32_t i = 0; i < round_requests; i++) {
    if (!c.post_write(c.member(0), 1)) return 0;
    c.poll();
  }
  return c.drain() ? round_requests : 0;
}
uint32_t write_in_one_turn(Rig& r, const Case&) {
  Crowd& c = made(r).alone;
  if (!c.post_write(c.member(0), round_requests)) return 0;
  c.poll();
  return c.drain() ? round_requests : 0;
}
uint32_t idle_turns(Rig& r, const Case&) {
  for (uint32_t i = 0; i < round_requests; i++) made(r).alone.poll();
  return round_requests;
}
uint32_t empty_polls(Rig& r, const Case&) {
  ibv_wc wc;
  for (uint32_t i = 0; i < round_requests; i++)
    if (ibv_poll_cq(made(r).alone.armable(0), 1, &wc) != 0) return 0;
  return round_requests;
}

// The device's part alone: what is posted before is not measured, nor what is polled.
uint32_t post_list(Rig& r, uint32_t entries) {
  Both* b = both(r);
  if (b == nullptr || !b->alone.drain()) return 0;
  if (b->alone.entries() != entries && !b->alone.make_list(entries)) return 0;
  return b->alone.post_list() ? 1 : 0;
}
uint32_t post_long_list(Rig& r, const Case& c) {
  return post_list(r, c.pieces);
}
uint32_t post_short_list(Rig& r, const Case&) {
  return post_list(r, most_pieces);
}
uint32_t execute_list(Rig& r, const Case&) {
  made(r).alone.poll();
  return made(r).alone.entries();
}

uint32_t copy_list(Rig& r, const Case&) {
  made(r).alone.copy_list();
  return made(r).alone.entries();
}

template <bool (Crowd::*Post)(uint32_t)>
uint32_t post_round(Rig& r, const Case&) {
  Both* b = both(r);
  return b != nullptr && b->alone.drain() && (b->alone.*Post)(round_requests) ? 1 : 0;
}
uint32_t post_writes(Rig& r, const Case&) {
  Both* b = both(r);
  if (b == nullptr || !b->alone.drain()) return 0;
  return b->alone.post_write(b->alone.member(0), round_requests) ? 1 : 0;
}
uint32_t execute(Rig& r, const Case&) {
  made(r).alone.poll();
  return round_requests;
}

constexpr Case of_queues[] = {{"of 512", 512}};
constexpr Case of_keys[] = {{"of 2000", 2000}};
constexpr Case of_size[] = {{"1 GiB", 1u << 30}};
constexpr Case of_depth[] = {{"4 keys", 4}};
constexpr Case of_entries[] = {{"4096 entries", 4096}};
constexpr Case of_bytes[] = {{"64 bytes", 1}};
constexpr Case of_words[] = {{"8 bytes", 1}};

constexpr Side alone_writes[] = {{"alone", write_alone, grow_none}};
constexpr Side alone_keys[] = {{"alone", make_alone, grow_none}};
constexpr Side alone_arms[] = {{"alone", arm_alone, grow_none}};
constexpr Side one_turn[] = {{"32 in one", write_in_one_turn, grow_none}};
constexpr Side polls[] = {{"ibv_poll_cq", empty_polls, grow_none}};
constexpr Side short_lists[] = {{"52 entries", execute_list, post_short_list}};
constexpr Side copies[] = {{"memcpy", copy_list, grow_none}};
constexpr Side writes[] = {{"RDMA WRITE", execute, post_writes}};

}  // namespace

const Line scale_write_line = {"WRITE on one of many queues / on one",
                               0,
                               1.3,
                               of_queues,
                               {"one of many", write_in_crowd, grow_queues},
                               alone_writes,
                               true};
const Line scale_arm_line = {
    "one of many completion queues armed / one", 0,          1.3, of_queues,
    {"one of many", arm_in_crowd, grow_cqs},     alone_arms, true};
const Line scale_key_line = {"WRITE beside many keys / beside one",
                             0,
                             1.05,
                             of_keys,
                             {"beside many", write_among_keys, grow_keys},
                             alone_writes,
                             true};
const Line scale_make_line = {
    "key made and destroyed beside many / beside one", 0,          1.05, of_keys,
    {"beside many", make_among_keys, grow_keys},       alone_keys, true};
const Line scale_size_line = {"WRITE from a large region / from one of 64 KiB",
                              0,
                              1.05,
                              of_size,
                              {"large", write_each_by<&Crowd::post_from_region>, size_region},
                              alone_writes,
                              true};
const Line scale_depth_line = {"WRITE through keys of keys / through none",
                               0,
                               2.85,
                               of_depth,
                               {"keys", write_each_by<&Crowd::post_from_tower>, build_tower},
                               alone_writes,
                               true};
const Line scale_turn_line = {"WRITE in a turn of its own / 32 in one",   0,        3.55, of_bytes,
                              {"a turn each", write_in_turns, grow_none}, one_turn, true, 1750};
const Line scale_idle_line = {"a turn that finds nothing / an empty poll", 0,     2,    of_bytes,
                              {"idle turn", idle_turns, grow_none},        polls, true, 156};
const Line scale_list_line = {
    "a piece of a long list / of a short one",      0,           1.5, of_entries,
    {"4096 entries", execute_list, post_long_list}, short_lists, true};
// This line has time alone: what lies between the two is the walk.
const Line scale_copy_line = {
    "a piece of a long list / its memcpy",          0,      0,   of_entries,
    {"4096 entries", execute_list, post_long_list}, copies, true};
const Line scale_send_line = {"SEND executed / RDMA WRITE executed",
                              0,
                              3.4,
                              of_bytes,
                              {"SEND", execute, post_round<&Crowd::post_send>},
                              writes,
                              true,
                              415};
const Line scale_atomic_line = {"atomic executed / RDMA WRITE executed",
                                0,
                                3,
                                of_words,
                                {"fetch and add", execute, post_round<&Crowd::post_atomic>},
                                writes,
                                true,
                                365};

}  // namespace kilim::perf
