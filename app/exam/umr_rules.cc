// SPDX-License-Identifier: BSD-3-Clause
// E4, E7 to E14: what UMRs may change of a key, and what a key's list means.
#include <cstring>
#include <string>

#include "question.hh"
#include "umr.hh"

namespace kilim::exam {
namespace {

constexpr uint32_t unit = 64;
constexpr uint8_t small_fence = 1;

// Sixteen units of memory, each with a letter of its own, and where a WRITE gathers them to.
struct Letters {
  Device d;
  Loop l;
  uint8_t *at, *into;
  ibv_mr *mr, *mr_into;

  Letters(const Setting& setting, Answer& answer) : Letters(open_device(setting, answer)) {}
  explicit Letters(const Device& device)
      : d(device),
        l(make_loop(d)),
        at(d.pages(4096)),
        into(d.pages(4096)),
        mr(d.reg(at, 4096)),
        mr_into(d.reg(into, 4096)) {
    for (uint32_t i = 0; i < 4096; i++) at[i] = static_cast<uint8_t>('A' + i / unit);
  }
  [[nodiscard]] prm::Klm letter(uint32_t i, uint32_t bytes = unit) const {
    return klm(at + std::size_t{i} * unit, bytes, mr->lkey);
  }
  // The first `count` of them, as a list.
  [[nodiscard]] std::vector<prm::Klm> letters(uint32_t count) const {
    std::vector<prm::Klm> list;
    for (uint32_t i = 0; i < count; i++) list.push_back(letter(i));
    return list;
  }
  // A fresh pair behind an error.
  void again() { l = make_loop(d); }
  // What `units` units through the key are: their letters, or the error.
  std::string read(uint32_t lkey, uint32_t units, double seconds = 2) {
    std::memset(into, '.', 4096);
    l.a.sq.post(rdma_write(nullptr, units * unit, lkey, place(into), mr_into->rkey));
    const auto done = l.a.sent.next(seconds);
    if (!done) return "no completion";
    if (done->failed()) return done->text();
    std::string s;
    for (uint32_t i = 0; i < units; i++) {
      const uint8_t c = into[std::size_t{i} * unit];
      s += c < ' ' ? '0' : static_cast<char>(c);
    }
    return s;
  }
  std::string change(const UmrWish& wish) {
    l.a.sq.post(umr(wish));
    const auto done = l.a.sent.next(2);
    return done ? done->text() : "no completion";
  }
};

bool is_error(const std::string& s) {
  return s.starts_with("0x") || s == "no completion";
}

void ask_zero_entry(const Setting& setting, Answer& answer) {
  Letters t(setting, answer);
  mlx5dv_mkey* key = make_key(t.d, 4);
  UmrWish wish = covering(t.d, key, {t.letter(0), t.letter(1, 0), t.letter(2)});
  std::string seen = t.change(wish);
  answer.fact("the UMR", seen);
  if (!is_error(seen)) answer.fact("read whole", seen = t.read(key->lkey, 2));
  answer.verdict(seen == "AC" ? "no bytes" : seen == "AB" ? "2^31 bytes" : "an error");
}

constexpr Meaning zero_entry_means[] = {
    {"no bytes", "an entry of 0 bytes is empty: layouts may have them"},
    {"2^31 bytes", "layout checks refuse entries of 0 bytes; the device counts 2^31"},
    {"an error", "layout checks refuse entries of 0 bytes"},
};

void ask_depth(const Setting& setting, Answer& answer) {
  Letters t(setting, answer);
  uint32_t depth = 0;
  uint32_t below = t.mr->lkey;
  uint64_t address = place(t.at);
  for (uint32_t level = 1; level <= 8; level++) {
    const mlx5dv_mkey* key = make_key(t.d, 4);
    const prm::Klm entry{be32{unit * 2}, be32{below}, be64{address}};
    std::string seen = t.change(covering(t.d, key, {entry}));
    const bool at_umr = is_error(seen);
    if (!at_umr) seen = t.read(key->lkey, 2);
    if (seen != "AB") {
      answer.fact(printed("level %u", level), (at_umr ? "at the UMR: " : "at use: ") + seen);
      break;
    }
    depth = level;
    below = key->lkey;
    address = 0;
  }
  answer.fact("levels", printed("%u", depth));
  const auto limit = t.d.capability(0, 0x100, 8);
  answer.fact("max_indirection", limit ? printed("%u", *limit) : "unknown");
  answer.verdict(limit && depth != *limit ? "another depth" : "as the capability says");
}

constexpr Meaning depth_means[] = {
    {"as the capability says", "max_indirection is the limit of keys below keys"},
    {"another depth", "the limit is the depth found: caps and device follow it"},
};

void ask_self(const Setting& setting, Answer& answer) {
  Letters t(setting, answer);
  mlx5dv_mkey* key = make_key(t.d, 4);
  UmrWish wish = covering(t.d, key, {{be32{unit}, be32{key->lkey}, be64{0}}});
  std::string seen = t.change(wish);
  answer.fact("the UMR", seen);
  if (is_error(seen)) return answer.verdict("error at the UMR");
  answer.fact("use", seen = t.read(key->lkey, 1));
  answer.verdict(seen == "no completion" ? "hangs" : is_error(seen) ? "error at use" : "no error");
}

constexpr Meaning self_means[] = {
    {"error at use", "lint names it; the device ends the request"},
    {"error at the UMR", "the device refuses the UMR already: move the refusal"},
    {"hangs", "the library refuses it, not the linter alone"},
    {"no error", "the device translates something: the library refuses it"},
};

void ask_shortened(const Setting& setting, Answer& answer) {
  Letters t(setting, answer);
  mlx5dv_mkey* key = make_key(t.d, 8);
  std::vector<prm::Klm> list = t.letters(8);
  std::string seen = t.change(covering(t.d, key, list));
  if (!is_error(seen)) {
    list.resize(4);
    seen = t.change(covering(t.d, key, list));
  }
  if (is_error(seen)) return answer.fact("bind", seen), answer.verdict("an error");
  UmrWish longer;
  longer.key = key->lkey;
  longer.mask = prm::umr::mask_len;
  longer.len = 8 * unit;
  answer.fact("lengthened", t.change(longer));
  answer.fact("read", seen = t.read(key->lkey, 8));
  answer.verdict(seen == "ABCDEFGH" ? "old entries are alive"
                 : is_error(seen)   ? "an error"
                                    : "other data");
}

constexpr Meaning shortened_means[] = {
    {"old entries are alive",
     "documented: entries behind a key's length are kept, none relies on it"},
    {"an error", "the device forgets entries behind the length, or ends such a read"},
    {"other data", "the device forgets entries behind the length: zeros or padding"},
};

void ask_patch(const Setting& setting, Answer& answer) {
  Letters t(setting, answer);
  mlx5dv_mkey* key = make_key(t.d, 16);
  std::string seen = t.change(covering(t.d, key, t.letters(16)));
  if (is_error(seen)) return answer.fact("bind", seen), answer.verdict("refused");
  bool patched = true;
  for (const int64_t at : {0, 4, 12, 16, 65536}) {
    UmrWish patch;
    patch.key = key->lkey;
    patch.mask = 0;
    patch.patch_at = at;
    for (uint32_t i = 0; i < 4; i++) patch.list.push_back(t.letter(20 + i));
    std::string want = "ABCDEFGHIJKLMNOP";
    t.change(covering(t.d, key, t.letters(16)));
    seen = t.change(patch);
    const bool refused = is_error(seen);
    if (refused)
      t.again();
    else
      seen = t.read(key->lkey, 16);
    answer.fact(printed("entries from %lld on", static_cast<long long>(at)), seen);
    if (at < 16) want.replace(static_cast<std::size_t>(at), 4, "UVWX");
    if (at < 16) patched = patched && seen == want;
    if (!refused && is_error(seen)) t.again();
  }
  answer.verdict(patched ? "granules are patched" : "refused");
}

constexpr Meaning patch_means[] = {
    {"granules are patched", "keys are patched position by position where the capability says so"},
    {"refused", "the patch path falls back to whole lists"},
};

// Each bit alone on a bound key: may a user's queue change that field?
void ask_masks(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  Letters t(d);
  std::string taken;
  bool usual = true;
  for (uint32_t bit = 0; bit < 64; bit++) {
    mlx5dv_mkey* key = make_key(d, 4);
    UmrWish bound = covering(t.d, key, {t.letter(0)});
    std::string seen = t.change(bound);
    if (!is_error(seen)) {
      UmrWish one = bound;
      one.list.clear();
      one.mask = uint64_t{1} << bit;
      seen = t.change(one);
    }
    if (is_error(seen)) {
      answer.fact(printed("bit %u", bit), seen);
      t.again();
    } else {
      taken += printed("%s%u", taken.empty() ? "" : " ", bit);
    }
    const bool wanted = (usual_mask >> bit & 1) != 0;
    usual = usual && (!wanted || !is_error(seen));
    mlx5dv_destroy_mkey(key);
  }
  answer.fact("taken", taken);
  answer.verdict(usual ? "the usual fields" : "fewer fields");
}

constexpr Meaning masks_mean[] = {
    {"the usual fields",
     "a UMR's mask stays; bits that differ go into the masks of library and device"},
    {"fewer fields",
     "a field that binding changes is refused alone: the masks of the library follow"},
};

void ask_plain_key(const Setting& setting, Answer& answer) {
  Letters t(setting, answer);
  UmrWish wish;
  wish.key = t.mr->lkey;
  wish.mask = prm::umr::mask_len;
  wish.len = 2048;
  const std::string seen = t.change(wish);
  answer.fact("the UMR", seen);
  answer.verdict(is_error(seen) ? "refused" : "allowed");
}

constexpr Meaning plain_key_means[] = {
    {"refused", "keys of ibv_reg_mr() are no UMR's business, as now"},
    {"allowed", "the device allows it too"},
};

// Posts a UMR that checks whether its key is free (or is not), and returns how it completed.
std::string check(Letters& t, uint8_t flag, bool free_key) {
  mlx5dv_mkey* key = make_key(t.d, 4);
  UmrWish bind = covering(t.d, key, {t.letter(0)});
  bind.free = free_key;
  std::string seen = t.change(bind);
  if (!is_error(seen)) {
    UmrWish checked = covering(t.d, key, {t.letter(0)});
    checked.flags = static_cast<uint8_t>(checked.flags | flag);
    seen = t.change(checked);
  }
  if (is_error(seen)) t.again();
  return seen;
}

void ask_free_checks(const Setting& setting, Answer& answer) {
  Letters t(setting, answer);
  const std::string right_1 = check(t, prm::umr::check_not_free, true);
  const std::string wrong_1 = check(t, prm::umr::check_not_free, false);
  const std::string right_2 = check(t, prm::umr::check_free, false);
  const std::string wrong_2 = check(t, prm::umr::check_free, true);
  answer.fact("flag 0x20, a free key", right_1);
  answer.fact("flag 0x20, a key in use", wrong_1);
  answer.fact("flag 0x40, a key in use", right_2);
  answer.fact("flag 0x40, a free key", wrong_2);
  const bool good = !is_error(right_1) && !is_error(right_2);
  answer.verdict(!good                                    ? "other"
                 : is_error(wrong_1) && is_error(wrong_2) ? "checked"
                                                          : "not checked");
}

constexpr Meaning free_checks_mean[] = {
    {"checked", "the checks of UMRs guard keys that two hold"},
    {"not checked", "the checks are dropped from the library's rules: they guard nothing"},
    {"other", "the flags mean something else, or a UMR fails: see the facts"},
};

void ask_tags(const Setting& setting, Answer& answer) {
  Letters t(setting, answer);
  mlx5dv_mkey* key = make_key(t.d, 4);
  UmrWish wish = covering(t.d, key, {t.letter(0)});
  std::string seen = t.change(wish);
  wish.new_tag = static_cast<uint8_t>(wish.new_tag + 1);
  if (!is_error(seen)) seen = t.change(wish);
  if (is_error(seen)) return answer.fact("bind", seen), answer.verdict("other");
  const uint32_t new_key = (key->lkey & ~0xffu) | wish.new_tag;
  answer.fact("the new tag", seen = t.read(new_key, 1));
  const bool works = seen == "A";
  const std::string local = t.read(key->lkey, 1);
  answer.fact("the old tag, local", local);
  t.again();
  t.l.a.sq.post(rdma_read(t.into, unit, t.mr_into->lkey, 0, key->lkey));
  const auto remote = t.l.a.sent.next(2);
  answer.fact("the old tag, remote", remote ? remote->text() : "no completion");
  const bool refused = is_error(local) && remote && remote->failed();
  answer.verdict(!works ? "other" : refused ? "old tags are refused" : "an old tag is taken");
}

constexpr Meaning tags_mean[] = {
    {"old tags are refused", "a stale key fails at its use: pools may reuse keys at once"},
    {"an old tag is taken", "the pool's safety by tags is void: keys stay longer in quarantine"},
    {"other", "a tag does not change by UMR: see the facts"},
};

constexpr Question rows[] = {
    {"E4", "an entry of 0 bytes in a key's list", 0, Disturbs::nothing, 10, zero_entry_means,
     "the error of such a list", "--fault wqe@2", ask_zero_entry},
    {"E7", "keys below keys: how deep", 0, Disturbs::nothing, 20, depth_means,
     "max_indirection of the profile, and where the refusal is", "--fault wqe@3", ask_depth},
    {"E8", "a key in its own list", 0, Disturbs::nothing, 10, self_means, "the error of its use",
     "--fault wqe@1", ask_self},
    {"E9", "a list that is shortened, then lengthened without a list", 0, Disturbs::nothing, 10,
     shortened_means, "what the device keeps behind a key's length", "--fault wqe@3",
     ask_shortened},
    {"E10", "patches of a list by translation offset", 0, Disturbs::nothing, 20, patch_means,
     "limits of patches", "--fault wqe@3", ask_patch},
    {"E11", "each bit of mkey_mask alone, from a user's queue", 0, Disturbs::nothing, 30,
     masks_mean, "the masks of umr/ in the library, and of drivers/vhca/tpt",
     "--profile plain-lists", ask_masks},
    {"E12", "a UMR of an ordinary region's key", 0, Disturbs::nothing, 10, plain_key_means,
     "the error of such a UMR", "cannot fail here: no profile's regions allow it", ask_plain_key},
    {"E13", "CHECK_FREE and CHECK_NOT_FREE the wrong way round", 0, Disturbs::nothing, 10,
     free_checks_mean, "the errors of checks", "--fault wqe@1", ask_free_checks},
    {"E14", "use of an old tag behind a UMR that changed it", 0, Disturbs::nothing, 10, tags_mean,
     "the errors of a stale key", "--fault wqe@2", ask_tags},
};

}  // namespace

std::span<const Question> umr_questions() {
  return rows;
}

}  // namespace kilim::exam
