// SPDX-License-Identifier: BSD-3-Clause
// What a port refuses of a transmit queue, by what the device can do: a row for each sentence.
#include <cerrno>
#include <cstring>
#include <string_view>

#include "kilim/detail/port/queues.hh"
#include "ut.hh"

namespace tx_setup_ut {
namespace {

using namespace kilim;
using port::TxSetup;
using Offload = queue::EthOffload;

constexpr device::TxCaps everything{.checksums = true,
                                    .tunnels = true,
                                    .vlan_insertion = true,
                                    .pacing = false,
                                    .max_tso = 1u << 18,
                                    .min_inline = 0};
constexpr TxSetup words{
    .config = {.offloads = true},
    .words = {
        .checksums = Offload::l3 | Offload::l4 | Offload::inner_l4, .vlan = true, .tso = true}};

device::TxCaps without(void (*change)(device::TxCaps&)) {
  device::TxCaps c = everything;
  change(c);
  return c;
}
TxSetup with(TxSetup s, void (*change)(TxSetup&)) {
  change(s);
  return s;
}

void what_the_device_lacks_is_refused_by_name() {
  const auto no_tso = without([](device::TxCaps& c) { c.max_tso = 0; });
  const auto no_sums = without([](device::TxCaps& c) { c.checksums = false; });
  const auto no_tunnels = without([](device::TxCaps& c) { c.tunnels = false; });
  const auto inlining = without([](device::TxCaps& c) { c.min_inline = 18; });
  const auto paced = without([](device::TxCaps& c) { c.pacing = true; });
  const TxSetup outer = with({}, [](TxSetup& s) { s.offload = Offload::inner_l3; });
  const TxSetup gathered = with({}, [](TxSetup& s) { s.config.gathered = true; });
  const TxSetup slow = with({}, [](TxSetup& s) { s.pacing_kbps = 1; });
  struct Row {
    TxSetup setup;
    device::TxCaps caps;
    int code;
    const char* word;
  };
  for (const Row& row : {
           Row{words, everything, 0, ""},
           Row{{}, {}, 0, ""},
           Row{words, no_tso, EOPNOTSUPP, "TSO"},
           Row{words, no_sums, EOPNOTSUPP, "checksums"},
           Row{with({}, [](TxSetup& s) { s.offload = Offload::l4; }), no_sums, EOPNOTSUPP,
               "checksums"},
           Row{words, no_tunnels, EOPNOTSUPP, "tunnels"},
           Row{outer, no_tunnels, EOPNOTSUPP, "tunnels"},
           Row{outer, everything, 0, ""},
           Row{gathered, everything, 0, ""},
           Row{gathered, inlining, EOPNOTSUPP, "key"},
           Row{with(words, [](TxSetup& s) { s.config.gathered = true; }), everything, EINVAL,
               "gathered"},
           Row{with(words, [](TxSetup& s) { s.config.offloads = false; }), everything, EINVAL,
               "config.offloads"},
           Row{with({}, [](TxSetup& s) { s.config.offloads = true; }), everything, EINVAL,
               "config.offloads"},
           Row{with({}, [](TxSetup& s) { s.config.multi_packet = true; }), everything, EINVAL,
               "port"},
           Row{slow, everything, EOPNOTSUPP, "device"},
           Row{slow, paced, EOPNOTSUPP, "kilim"},
       }) {
    const Status s = port::check_tx(row.setup, row.caps, true);
    EQUAL(s.ok() ? 0 : s.error().code, row.code);
    if (!s.ok())
      CU_ASSERT(std::string_view(s.error().what).find(row.word) != std::string_view::npos);
  }
}

void words_need_side_records() {
  EQUAL(port::check_tx(words, everything, false).error().code, EINVAL);
  CU_ASSERT(port::check_tx({}, everything, false).ok());
}

// Every burst that a queue may ask for exists.
void each_configuration_has_its_bursts() {
  for (uint32_t i = 0; i < burst::tx_configs; i++)
    CU_ASSERT(burst::has_bursts(burst::tx_config(i)));
  for (const bool seg : {false, true})
    CU_ASSERT(burst::has_bursts({.multi_seg = seg, .offloads = true}));
  CU_ASSERT_FALSE(burst::has_bursts({.gathered = true, .offloads = true}));
  CU_ASSERT_FALSE(burst::has_bursts({.multi_seg = true, .multi_packet = true}));
}

const kilim::test::Case cases[] = {
    {"what the device lacks is refused by name", what_the_device_lacks_is_refused_by_name},
    {"words need side records", words_need_side_records},
    {"each configuration has its bursts", each_configuration_has_its_bursts},
};

}  // namespace
}  // namespace tx_setup_ut

KILIM_TEST_SUITE(tx_setup, tx_setup_ut::cases)
