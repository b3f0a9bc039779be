// SPDX-License-Identifier: BSD-3-Clause
// Messages of the soak with a shadow that may be lost: UC, UD and raw frames. Each carries its
// length and a sum of its bytes, so that what arrives is whole, or was damaged on a wire that
// damages; raw frames alone have no sum that the adapter would see.
#include <algorithm>

#include "shadow_fixture.hh"

namespace kilim::test {
namespace {

namespace layout = shadow_layout;
constexpr std::size_t header = 16, grh = 40, raw_header = 14;
constexpr std::size_t received = 3 * layout::slots * layout::slot;  // where slots of receives begin

std::size_t place_of(std::size_t kind, std::size_t slot) {
  return (kind * layout::slots + slot) * layout::slot;
}

// FNV-1a.
uint64_t sum_of(std::span<const uint8_t> bytes) {
  uint64_t sum = 0xcbf29ce484222325;
  for (const uint8_t b : bytes) sum = (sum ^ b) * 0x100000001b3;
  return sum;
}

// Length and sum in front of bytes that follow from the number.
void compose(std::span<uint8_t> message, uint64_t number) {
  fill(message.data() + header, message.size() - header, static_cast<uint8_t>(number * 13));
  const uint64_t bytes = message.size(), sum = sum_of(message.subspan(header));
  std::memcpy(message.data(), &bytes, sizeof bytes);
  std::memcpy(message.data() + sizeof bytes, &sum, sizeof sum);
}

bool is_whole(std::span<const uint8_t> message) {
  if (message.size() < header) return false;
  uint64_t bytes, sum;
  std::memcpy(&bytes, message.data(), sizeof bytes);
  std::memcpy(&sum, message.data() + sizeof bytes, sizeof sum);
  return bytes == message.size() && sum == sum_of(message.subspan(header));
}

}  // namespace

void Shadow::post_loose(ShadowEnd& e, std::size_t kind, std::size_t slot) {
  const std::size_t at = received + place_of(kind, slot);
  ibv_sge sge{reinterpret_cast<uintptr_t>(e.loose_memory.data()) + at,
              static_cast<uint32_t>(layout::slot), e.loose_mr->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = kind * layout::slots + slot;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  EQUAL(ibv_post_recv(e.loose[kind], &wr, &bad), 0);
}

// One of each kind.
void Shadow::send_loose(ShadowEnd& near, const ShadowEnd& far) {
  constexpr std::size_t most[] = {layout::slot, 1024, 1400};
  for (std::size_t kind = 0; kind < 3; kind++) {
    const std::size_t front = kind == static_cast<std::size_t>(Loose::raw) ? raw_header : 0;
    const std::size_t bytes = header + 32 + below(most[kind] - header - 32 - front + 1);
    const std::size_t slot = near.loose_sent[kind]++ % layout::slots;
    uint8_t* const at = near.loose_memory.data() + place_of(kind, slot);
    compose({at + front, bytes}, random_());
    if (front != 0) {
      const uint8_t to = &far == ends_[0].get() ? 1 : 2;
      const uint8_t head[raw_header] = {
          2, 0x5d, 0, 0, 0, to, 2, 0x5d, 0, 0, 0, static_cast<uint8_t>(3 - to), 0x88, 0xb5};
      std::copy_n(head, raw_header, at);
    }
    ibv_sge sge{reinterpret_cast<uintptr_t>(at), static_cast<uint32_t>(front + bytes),
                near.loose_mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.ud = {near.ah, far.loose[static_cast<std::size_t>(Loose::ud)]->qp_num, 0x5d5d};
    EQUAL(ibv_post_send(near.loose[kind], &wr, &bad), 0);
    near.loose_expected++;
    counts.sent[kind]++;
  }
}

// What was sent has left; what has come is looked at, and its room given back.
bool Shadow::take_loose(ShadowEnd& e) {
  constexpr std::size_t fronts[] = {0, grh, raw_header};
  for (int idle = 0; idle < 20'000 && (e.loose_expected != 0 || idle < 3); idle++) {
    run();
    ibv_wc wc{};
    while (ibv_poll_cq(e.loose_cq, 1, &wc) == 1) {
      idle = 0;
      if (wc.status != IBV_WC_SUCCESS) return complain(ibv_wc_status_str(wc.status), wc.wr_id);
      if ((wc.opcode & IBV_WC_RECV) == 0) {
        e.loose_expected--;
        continue;
      }
      const std::size_t kind = wc.wr_id / layout::slots, slot = wc.wr_id % layout::slots;
      const uint8_t* const at = e.loose_memory.data() + received + place_of(kind, slot);
      const bool whole =
          wc.byte_len >= fronts[kind] && is_whole({at + fronts[kind], wc.byte_len - fronts[kind]});
      (whole ? counts.right : counts.wrong)[kind]++;
      const bool may_be_damaged = damages_ && kind == static_cast<std::size_t>(Loose::raw);
      if (!whole && !may_be_damaged) return complain("a message has a wrong sum", kind);
      post_loose(e, kind, slot);
    }
  }
  return e.loose_expected == 0 || complain("a message does not leave");
}

}  // namespace kilim::test
