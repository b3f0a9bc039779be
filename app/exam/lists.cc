// SPDX-License-Identifier: BSD-3-Clause
// E5, E6, E22: lists of entries of one size, lists by chance, and interleaved ones.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/mkc.hh"
#include "question.hh"
#include "umr.hh"

namespace kilim::exam {
namespace {

constexpr uint32_t memory = 65536, most_entries = 40;

// Each card gets the lists of one seed (xorshift32, Marsaglia).
struct Dice {
  uint32_t state = 20261127;
  uint32_t operator()() {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
  }
};

struct Bench {
  Device d;
  Loop l;
  uint8_t *at, *into;
  ibv_mr *mr, *mr_into;
  mlx5dv_mkey* key;

  Bench(const Setting& setting, Answer& answer)
      : d(open_device(setting, answer)),
        l(make_loop(d)),
        at(d.pages(memory)),
        into(d.pages(memory)),
        mr(d.reg(at, memory)),
        mr_into(d.reg(into, memory)),
        key(make_key(d, 64)) {
    for (uint32_t i = 0; i < memory; i++) at[i] = static_cast<uint8_t>(i * 31 + (i >> 8));
  }
  std::string post(const Wqe& wqe) {
    l.a.sq.post(wqe);
    const auto done = l.a.sent.next(2);
    return done ? done->text() : "no completion";
  }
  std::string gather(uint64_t from, uint32_t bytes) {
    Wqe w{.opcode = MLX5_OPCODE_RDMA_WRITE, .body = {}};
    return post(w.remote(place(into), mr_into->rkey).data(from, bytes, key->lkey));
  }
  void again() { l = make_loop(d); }
};

// Entries of odd addresses, a third of them of 1 to 3 bytes.
std::vector<prm::Klm> list_by_chance(const Bench& b, Dice& dice, std::vector<uint8_t>& all) {
  std::vector<prm::Klm> list(1 + dice() % most_entries);
  for (prm::Klm& k : list) {
    const uint32_t bytes = dice() % 3 == 0 ? 1 + dice() % 3 : 1 + dice() % 700;
    const uint8_t* from = b.at + dice() % (memory - 1024);
    k = klm(from, bytes, b.mr->lkey);
    const std::size_t at = all.size();
    all.resize(at + bytes);
    std::memcpy(all.data() + at, from, bytes);
  }
  return list;
}

// Empty: whole and by a window of it the list is what it says.
std::string try_list(Bench& b, Dice& dice) {
  std::vector<uint8_t> all;
  const std::string bound = b.post(umr(covering(b.d, b.key, list_by_chance(b, dice, all))));
  if (bound != "ok") return "the UMR: " + bound;
  const auto size = static_cast<uint32_t>(all.size());
  const uint32_t from = dice() % size, bytes = 1 + dice() % (size - from);
  for (const auto& [at, n] : {std::pair{0u, size}, std::pair{from, bytes}}) {
    std::string seen = b.gather(at, n);
    if (seen != "ok") return seen;
    if (std::memcmp(b.into, all.data() + at, n) != 0) return "wrong data";
  }
  return "";
}

void ask_random_lists(const Setting& setting, Answer& answer) {
  Bench b(setting, answer);
  Dice dice;
  const uint32_t rounds = 100 * setting.effort;
  for (uint32_t i = 0; i < rounds; i++) {
    const std::string fault = try_list(b, dice);
    if (fault.empty()) continue;
    answer.fact(printed("list %u", i), fault);
    return answer.verdict("some differ");
  }
  answer.measured("lists", printed("%u", rounds));
  answer.verdict("as written");
}

constexpr Meaning random_lists_mean[] = {
    {"as written", "entries may begin and end at any byte"},
    {"some differ", "bounds of entries go into the linter and into layout checks"},
};

struct Interleaved {
  const char* name;
  uint32_t repeats;
  uint16_t stride, bytes;
  uint32_t entries;
};

constexpr Interleaved shapes[] = {
    {"2 entries of 64 bytes, 4 times", 4, 128, 64, 2},
    {"an entry of 3 bytes, 7 times", 7, 5, 3, 1},
    {"stride 0xffff, 1 byte, 2 times", 2, 0xffff, 1, 1},
    {"blocks that overlap", 4, 32, 64, 1},
    {"32 entries, 2 times", 2, 64, 32, 32},
};

// Empty: the blocks come in the order that the list says.
std::string try_shape(Bench& b, const Interleaved& s) {
  UmrWish wish = covering(b.d, b.key, {});
  wish.len = uint64_t{s.repeats} * s.entries * s.bytes;
  prm::RepeatBlockSeg head{};
  head.byte_count = be32{s.entries * s.bytes};
  head.op = be32{prm::repeat_block_op};
  head.repeat_count = be32{s.repeats};
  head.num_ent = be16{static_cast<uint16_t>(s.entries)};
  wish.list.push_back(std::bit_cast<prm::Klm>(head));
  std::vector<uint8_t> all;
  for (uint32_t e = 0; e < s.entries; e++) {
    const prm::RepeatEntSeg entry{be16{s.stride}, be16{s.bytes}, be32{b.mr->lkey},
                                  be64{place(b.at) + e * 1000}};
    wish.list.push_back(std::bit_cast<prm::Klm>(entry));
  }
  for (uint32_t r = 0; r < s.repeats; r++)
    for (uint32_t e = 0; e < s.entries; e++)
      for (uint32_t i = 0; i < s.bytes; i++) all.push_back(b.at[e * 1000 + r * s.stride + i]);
  std::string seen = b.post(umr(wish));
  if (seen != "ok") return "the UMR: " + seen;
  seen = b.gather(0, static_cast<uint32_t>(all.size()));
  if (seen != "ok") return seen;
  return std::equal(all.begin(), all.end(), b.into) ? "" : "wrong data";
}

void ask_interleaved(const Setting& setting, Answer& answer) {
  Bench b(setting, answer);
  bool all = true;
  for (const Interleaved& s : shapes) {
    const std::string fault = try_shape(b, s);
    answer.fact(s.name, fault.empty() ? "ok" : fault);
    all = all && fault.empty();
    if (!fault.empty()) b.again();
  }
  answer.verdict(all ? "as written" : "some fail");
}

constexpr Meaning interleaved_means[] = {
    {"as written", "interleaved layouts keep their limits"},
    {"some fail", "the limits of interleaved layouts go into the capabilities: see the facts"},
};

constexpr uint32_t log_unit = 12, unit = 1u << log_unit;

// A key of entries of 4 KiB, by command: verbs make none. 0: `why` has the refusal.
uint32_t make_fixed_key(const Device& d, std::string& why) {
  mlx5dv_pd pd{};
  mlx5dv_obj object{};
  object.pd = {d.pd, &pd};
  mlx5dv_init_obj(&object, MLX5DV_OBJ_PD);
  prm::CreateMkeyIn in{};
  in.opcode = be16{prm::cmd::create_mkey};
  prm::mkc::free::set(in.mkc, 1u);
  prm::mkc::umr_en::set(in.mkc, 1u);
  prm::mkc::local_read::set(in.mkc, 1u);
  prm::mkc::local_write::set(in.mkc, 1u);
  prm::mkc::access_mode_1_0::set(in.mkc, prm::mkc::access_mode_ksm);
  prm::mkc::qpn::set(in.mkc, prm::mkey::any_qpn);
  prm::mkc::pd::set(in.mkc, pd.pdn);
  prm::mkc::log_entity_size::set(in.mkc, log_unit);
  in.mkc.translations_octword_size = be32{4};
  prm::CreateMkeyOut out{};
  if (mlx5dv_devx_obj_create(d.context, &in, sizeof in, &out, sizeof out) == nullptr) {
    why =
        errno_name(errno_now()) + printed(", status 0x%02x", static_cast<unsigned>(out.hdr.status));
    return 0;
  }
  return out.mkey_index.host() << 8;
}

// "ok": two entries of 4 KiB with this byte count are read whole.
std::string try_fixed(Bench& b, uint32_t byte_count) {
  std::string why;
  UmrWish wish;
  wish.key = make_fixed_key(b.d, why);
  if (wish.key == 0) return "no key: " + why;
  wish.mask = usual_mask & ~prm::umr::mask_atomic;
  wish.access = prm::mkey::local_read | prm::mkey::local_write;
  wish.len = uint64_t{2} * unit;
  wish.log_entity = log_unit;
  for (const uint32_t page : {3u, 1u}) {
    prm::Klm k = klm(b.at + std::size_t{page} * unit, 0, b.mr->lkey);
    k.byte_count = be32{byte_count};
    wish.list.push_back(k);
  }
  std::string seen = b.post(umr(wish));
  if (seen != "ok") return "the UMR: " + seen;
  Wqe w{.opcode = MLX5_OPCODE_RDMA_WRITE, .body = {}};
  seen = b.post(w.remote(place(b.into), b.mr_into->rkey).data(uint64_t{0}, 2 * unit, wish.key));
  if (seen != "ok") return seen;
  const bool same = std::memcmp(b.into, b.at + 3 * unit, unit) == 0 &&
                    std::memcmp(b.into + unit, b.at + unit, unit) == 0;
  return same ? "ok" : "wrong data";
}

void ask_fixed(const Setting& setting, Answer& answer) {
  Bench b(setting, answer);
  if (!b.d.devx) answer.not_run("the device was opened without firmware commands (DevX)");
  std::string zero;
  bool all = true;
  for (const uint32_t count : {0u, unit, 1u, 0x12345678u}) {
    const std::string seen = try_fixed(b, count);
    answer.fact(printed("byte count 0x%x", count), seen);
    if (count == 0) zero = seen;
    all = all && seen == "ok";
    if (seen != "ok") b.again();
  }
  answer.verdict(all ? "ignored" : zero == "ok" ? "some are refused" : "not by 0");
}

constexpr Meaning fixed_means[] = {
    {"ignored", "the byte count of an entry of one size says nothing, as the library has it"},
    {"some are refused", "entries of one size are written with 0, or with their size, always"},
    {"not by 0", "entries of one size are written with their size always; or there are none"},
};

constexpr Question rows[] = {
    {"E5", "entries of one size with a byte count", 0, Disturbs::nothing, 20, fixed_means,
     "the byte count that is refused", "--fault wqe@3", ask_fixed},
    {"E6", "lists of entries at any byte, by chance", 0, Disturbs::nothing, 20, random_lists_mean,
     "the list and its error", "--fault wqe@2", ask_random_lists},
    {"E22", "interleaved lists: strides, overlaps, many entries", 0, Disturbs::nothing, 20,
     interleaved_means, "the shape and its error", "--fault wqe@3", ask_interleaved},
};

}  // namespace

std::span<const Question> list_questions() {
  return rows;
}

}  // namespace kilim::exam
