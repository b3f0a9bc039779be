// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/base/outcome.hh"

#include <cstdio>

namespace kilim::inline v1 {
namespace {

// Which of an Outcome's numbers mean something.
enum class Numbers : uint8_t { none, asked, both };

struct Row {
  Refusal why;
  const char* sentence;
  Numbers numbers;
  const char* unit;
};

// clang-format off
constexpr Row rows[] = {
    {Refusal::none, "appended", Numbers::none, ""},
    {Refusal::no_room, "the queue has too little room", Numbers::both, "blocks or receives"},
    {Refusal::empty, "the view is empty, or holds a piece of no bytes", Numbers::none, ""},
    {Refusal::too_many_inline, "the view has more pieces than one WQE can carry inline", Numbers::both, "entries"},
    {Refusal::over_key, "the view has more pieces than the key has entries", Numbers::both, "entries"},
    {Refusal::no_such_change, "a key has no such field to change", Numbers::asked, "fields"},
    {Refusal::no_pointer, "the device takes no lists by pointer", Numbers::none, ""},
    {Refusal::no_list_memory, "the list memory has too little room", Numbers::both, "entries"},
    {Refusal::misaligned_list, "a list by pointer begins at a multiple of 2048 bytes", Numbers::asked, "bytes behind one"},
    {Refusal::off_granule, "a list is changed in whole granules of four entries", Numbers::both, "entries"},
    {Refusal::offset_too_far, "the device cannot name so late an entry of a list", Numbers::both, "entries"},
    {Refusal::no_repeat, "the device has no strided lists", Numbers::none, ""},
    {Refusal::on_demand, "the kernel brings in no page behind a strided list, and the key has too few entries for its blocks", Numbers::none, ""},
    {Refusal::long_block, "a strided entry has a length of 16 bits", Numbers::both, "bytes"},
    {Refusal::long_stride, "a strided entry has a stride of 16 bits", Numbers::both, "bytes"},
    {Refusal::long_repetition, "one repetition of a strided list has a length of 32 bits", Numbers::both, "MiB"},
    {Refusal::too_many_blocks, "a strided list has a number of entries of 16 bits", Numbers::both, "entries"},
    {Refusal::wrong_size, "an entry of fixed size has another size", Numbers::both, "bytes"},
    {Refusal::keeps_entity, "the device does not change the size of a key's fixed entries", Numbers::none, ""},
    {Refusal::too_deep, "the device follows fewer keys of keys", Numbers::both, "levels"},
    {Refusal::itself, "a key cannot show itself", Numbers::asked, "th entry"},
    {Refusal::no_key, "no key is free: the pool is dry, or its keys wait for an epoch", Numbers::both, "asked for"},
    {Refusal::queue_failed, "the send queue had an error and has not been recovered", Numbers::none, ""},
    {Refusal::wrong_kind, "the key was made for entries of another kind (fixed size, or not)", Numbers::none, ""},
    {Refusal::long_window, "a memory window spans at most 2 GiB", Numbers::both, "MiB"},
    {Refusal::beyond_region, "a memory window reaches beyond its region", Numbers::both, "bytes"},
    {Refusal::not_bindable, "the region was registered without the right to bind windows", Numbers::none, ""},
    {Refusal::window_rights, "a memory window grants remote writing, reading and atomics only", Numbers::both, "as access bits"},
    {Refusal::read_only, "a region without local writing has no windows that are written through", Numbers::none, ""},
    {Refusal::zero_based, "a window of type 1 cannot begin at address 0, nor lie on a region that does", Numbers::none, ""},
    {Refusal::unsigned_rule, "the rule signs neither memory nor wire", Numbers::none, ""},
    {Refusal::copies_nothing, "signatures are copied only between blocks of one size and kind", Numbers::asked, "as mask"},
    {Refusal::long_piece, "a piece spans at most 2 GiB", Numbers::both, "bytes"},
    {Refusal::other_queue, "a window of type 2 belongs to the queue pair that bound it", Numbers::both, "is this one"},
    {Refusal::empty_piece, "a request of one piece cannot be empty: a length of 0 stands for 2 GiB", Numbers::none, ""},
    {Refusal::long_message, "the message is longer than the device sends", Numbers::both, "bytes"},
    {Refusal::many_pieces, "the request has too many pieces", Numbers::both, "pieces"},
    {Refusal::bad_header, "a header in the WQE has at least 14 bytes, and payload behind it where it is segmented", Numbers::both, "bytes"},
    {Refusal::raw_crypto, "signatures in both domains need signing before what is sent is encrypted, or after it is decrypted", Numbers::none, ""},
};
// clang-format on

// True: there is a row for each Refusal, in their order, so that a row is found by its index.
constexpr bool complete() {
  uint32_t i = 0;
  for (const Row& row : rows)
    if (row.why != static_cast<Refusal>(i++)) return false;
  return i == static_cast<uint32_t>(Refusal::raw_crypto) + 1;
}
static_assert(complete());

const Row& row_of(Refusal r) noexcept {
  const auto i = static_cast<uint32_t>(r);
  return rows[i < sizeof rows / sizeof *rows ? i : 0];
}

}  // namespace

const char* text(Refusal r) noexcept {
  return row_of(r).sentence;
}

uint32_t describe(const Outcome& o, std::span<char> out) noexcept {
  const Row& row = row_of(o.why);
  int n = 0;
  switch (row.numbers) {
    case Numbers::none:
      n = std::snprintf(out.data(), out.size(), "%s", row.sentence);
      break;
    case Numbers::asked:
      n = std::snprintf(out.data(), out.size(), "%s: %u %s", row.sentence, o.asked, row.unit);
      break;
    case Numbers::both:
      n = std::snprintf(out.data(), out.size(), "%s: %u %s, the limit is %u", row.sentence, o.asked,
                        row.unit, o.limit);
      break;
  }
  if (n < 0 || out.empty()) return 0;
  const auto length = static_cast<uint32_t>(n);
  return length < out.size() ? length : static_cast<uint32_t>(out.size()) - 1;
}

}  // namespace kilim::inline v1
