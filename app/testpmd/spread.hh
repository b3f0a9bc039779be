// SPDX-License-Identifier: BSD-3-Clause
// What frames are spread over receive queues by, in testpmd's words, as ethdevs have it
// (RTE_ETH_RSS_*, rte_ethdev.h) and as Kilim's ports do (flow::HashTypes). Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kilim/flow.hh"
#include "options.hh"

namespace kilim::testpmd {

// The bits of a word of `port config all rss`: "ip", "udp", "ipv4-tcp", "none". Empty: it is none.
std::optional<uint64_t> rss_of(std::string_view word);
// "level-inner": the kinds of `before` by this one of a tunnel's headers (RTE_ETH_RSS_LEVEL_*).
// Empty: it is none.
std::optional<uint64_t> rss_level_of(std::string_view word, uint64_t before);
// What ports are asked for, --rss-ip unless said; 0: nothing.
uint64_t rss_asked(const Options& o) noexcept;
// What of it a Kilim port can do; the same as net_kilim tells as an ethdev.
uint64_t native_rss(uint64_t rss_hf) noexcept;
// Whether the headers inside tunnels are hashed. Both levels at once, all that a port offers, are
// none, as with net_kilim.
bool hashes_inside(uint64_t rss_hf) noexcept;
// Makes a Kilim port's spreading. Nothing asked: all frames go to the first queue. Key and table
// are those of `before`, if the table fits so many queues.
flow::Rss spread_of(uint64_t rss_hf, const flow::Rss& before, uint32_t queues);
// Their names in lines of at most 64 characters, as `show port N rss-hash` has them: whole groups
// first; and as `show port info` has what is offered.
std::string rss_text(uint64_t rss_hf);
std::string rss_offer_text(uint64_t rss_hf);

// A key of 80 hexadecimal digits. Empty: it is read; else what is wrong, in testpmd's words.
std::string parse_rss_key(std::string_view text, flow::HashKey& key);

}  // namespace kilim::testpmd
