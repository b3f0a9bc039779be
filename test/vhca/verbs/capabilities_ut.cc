// SPDX-License-Identifier: BSD-3-Clause
// What libibverbs and libmlx5 tell a program of an adapter is what its profile has: signed keys,
// paging by transport, streams of dynamic connections, tag matching, each for the cards that lack
// it too. The numbers are written out here, not taken from the profile.
#include <string>
#include <string_view>

#include "fabric_fixture.hh"

namespace capabilities_ut {
namespace {

using namespace kilim::test;

constexpr uint32_t paged = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                           IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;

struct Card {
  const char* profile;
  bool signs, pages, dynamic, tags;
};
// Without DevX libmlx5 has no way to ask for signatures, nor for the paging of dynamic connections.
constexpr Card cards[] = {
    {"cx6dx", true, true, true, false},         {"vf", false, true, true, false},
    {"no-signature", false, true, true, false}, {"no-odp", true, false, true, false},
    {"no-dc", true, true, false, false},        {"infiniband", true, true, true, true},
    {"no-devx", false, true, true, false},      {"less-odp", true, true, true, false},
    {"no-mpw", true, true, true, false},        {"no-tx-offloads", true, true, true, false},
    {"inline-l2", true, true, true, false},     {"inline-ip", true, true, true, false},
};
constexpr std::size_t card_count = std::size(cards);

ibv_context* opened(std::size_t i) {
  static ibv_context* all[card_count];
  const std::string name = "card" + std::to_string(i);
  if (all[i] == nullptr && attach_device(name.c_str(), cards[i].profile) != nullptr)
    all[i] = open_device(name.c_str());
  CU_ASSERT_PTR_NOT_NULL_FATAL(all[i]);
  return all[i];
}

template <typename F>
void each_card(F f) {
  for (std::size_t i = 0; i < card_count; i++) {
    const auto before = CU_get_number_of_failures();
    f(cards[i], opened(i));
    if (CU_get_number_of_failures() != before) std::printf("card %s\n", cards[i].profile);
  }
}

// Asks for one thing, which libmlx5 has to know of.
mlx5dv_context ask(ibv_context* c, uint64_t mask) {
  mlx5dv_context dv{};
  dv.comp_mask = mask;
  EQUAL(mlx5dv_query_device(c, &dv), 0);
  EQUAL(dv.comp_mask, mask);
  return dv;
}

ibv_device_attr_ex ask(ibv_context* c) {
  ibv_device_attr_ex attr{};
  EQUAL(ibv_query_device_ex(c, nullptr, &attr), 0);
  return attr;
}

void signed_keys_are_told() {
  each_card([](const Card& card, ibv_context* c) {
    const mlx5dv_sig_caps s = ask(c, MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD).sig_caps;
    if (!card.signs) {
      EQUAL(s.block_prot, 0);
      EQUAL(s.block_size, 0);
      EQUAL(s.t10dif_bg, 0);
      EQUAL(s.crc_type, 0);
      return;
    }
    EQUAL(s.block_prot, MLX5DV_SIG_PROT_CAP_T10DIF | MLX5DV_SIG_PROT_CAP_CRC);
    EQUAL(s.block_size, MLX5DV_BLOCK_SIZE_CAP_512 | MLX5DV_BLOCK_SIZE_CAP_520 |
                            MLX5DV_BLOCK_SIZE_CAP_4048 | MLX5DV_BLOCK_SIZE_CAP_4096 |
                            MLX5DV_BLOCK_SIZE_CAP_4160);
    EQUAL(s.t10dif_bg, MLX5DV_SIG_T10DIF_BG_CAP_CRC | MLX5DV_SIG_T10DIF_BG_CAP_CSUM);
    EQUAL(s.crc_type, MLX5DV_SIG_CRC_TYPE_CAP_CRC32 | MLX5DV_SIG_CRC_TYPE_CAP_CRC32C |
                          MLX5DV_SIG_CRC_TYPE_CAP_CRC64_XP10);
  });
}

void a_key_is_signed_where_that_was_told() {
  each_card([](const Card& card, ibv_context* c) {
    ibv_pd* pd = ibv_alloc_pd(c);
    mlx5dv_mkey_init_attr attr{};
    attr.pd = pd;
    attr.create_flags =
        MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
    attr.max_entries = 4;
    mlx5dv_mkey* key = mlx5dv_create_mkey(&attr);
    EQUAL(key != nullptr, card.signs);
    if (key != nullptr) EQUAL(mlx5dv_destroy_mkey(key), 0);
    EQUAL(ibv_dealloc_pd(pd), 0);
  });
}

void paging_is_told_by_transport() {
  each_card([](const Card& card, ibv_context* c) {
    const ibv_device_attr_ex a = ask(c);
    const auto& by = a.odp_caps.per_transport_caps;
    const bool less = std::string_view(card.profile) == "less-odp";
    const uint32_t rc = less ? paged & ~IBV_ODP_SUPPORT_ATOMIC : card.pages ? paged : 0;
    const uint32_t others = less ? rc & ~IBV_ODP_SUPPORT_RECV : rc;
    EQUAL(a.odp_caps.general_caps, card.pages ? IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT : 0);
    EQUAL(by.rc_odp_caps, rc);
    EQUAL(by.uc_odp_caps, 0);
    EQUAL(by.ud_odp_caps, card.pages ? IBV_ODP_SUPPORT_SEND : 0);
    EQUAL(a.xrc_odp_caps, others);
    const bool asked = std::string_view(card.profile) != "no-devx";
    EQUAL(ask(c, MLX5DV_CONTEXT_MASK_DC_ODP_CAPS).dc_odp_caps, card.dynamic && asked ? others : 0);
  });
}

void streams_are_told() {
  each_card([](const Card& card, ibv_context* c) {
    const mlx5dv_dci_streams_caps s = ask(c, MLX5DV_CONTEXT_MASK_DCI_STREAMS).dci_streams_caps;
    EQUAL(s.max_log_num_concurent, card.dynamic ? 6 : 0);
    EQUAL(s.max_log_num_errored, card.dynamic ? 6 : 0);
  });
}

void tag_matching_is_told() {
  each_card([](const Card& card, ibv_context* c) {
    const ibv_tm_caps t = ask(c).tm_caps;
    EQUAL(t.max_num_tags, card.tags ? 127 : 0);
    EQUAL(t.max_rndv_hdr_size, card.tags ? 64 : 0);
    EQUAL(t.flags, card.tags ? IBV_TM_CAP_RC : 0);
    EQUAL(t.max_ops, card.tags ? 32768 : 0);
    EQUAL(t.max_sge, card.tags ? 1 : 0);
  });
}

void multi_packet_sending_is_told() {
  each_card([](const Card& card, ibv_context* c) {
    const std::string_view p = card.profile;
    const uint64_t wanted =
        p == "no-mpw" || p == "infiniband" || p == "inline-l2" || p == "inline-ip"
            ? 0
            : MLX5DV_CONTEXT_FLAGS_MPW_ALLOWED | MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW;
    EQUAL(ask(c, 0).flags & (MLX5DV_CONTEXT_FLAGS_MPW_ALLOWED | MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW),
          wanted);
  });
}

void segmentation_is_told() {
  each_card([](const Card& card, ibv_context* c) {
    const std::string_view p = card.profile;
    const bool none = p == "no-tx-offloads" || p == "infiniband";
    const ibv_tso_caps t = ask(c).tso_caps;
    EQUAL(t.max_tso, none ? 0 : 1 << 18);
    EQUAL(t.supported_qpts, none ? 0 : 1 << IBV_QPT_RAW_PACKET);
  });
}

const Case cases[] = {
    {"formats and blocks of signed keys are what the card has", signed_keys_are_told},
    {"a signed key is made where the card says so, and only there",
     a_key_is_signed_where_that_was_told},
    {"page faults are told by transport, as the card takes them", paging_is_told_by_transport},
    {"streams of dynamic connections are what the card has", streams_are_told},
    {"tag matching is what the card has", tag_matching_is_told},
    {"multi-packet sending is what the card has", multi_packet_sending_is_told},
    {"segmentation is what the card has", segmentation_is_told},
};

}  // namespace
}  // namespace capabilities_ut

KILIM_TEST_SUITE(capabilities, capabilities_ut::cases)
