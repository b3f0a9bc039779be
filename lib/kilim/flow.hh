// SPDX-License-Identifier: BSD-3-Clause
// Which frames come where. flow::Rule is a match and what happens to it (a queue, spreading, drop,
// mark, count); flow::Rss says how frames are spread by a hash of their headers, flow::Filter which
// are received at all. port::Port takes all three, also under traffic; toeplitz() and queue_of()
// tell in software where a frame would go.
//
// Threads: pure values, any thread; handing them to a port is the control lcore's.
//
// Errors: Port::add_rule() gives EINVAL with the field that is wrong (flow::RuleError), EOPNOTSUPP
// where the device has no such match or action, ENOSPC.
//
// Example:
//   kilim::flow::Rule dns_to_queue(uint16_t queue) {
//     kilim::flow::Rule rule;
//     rule.match.ipv4 = kilim::flow::Ipv4{};
//     rule.match.udp = kilim::flow::Ports{.dst = kilim::flow::exactly(uint16_t{53})};
//     rule.action.queue = queue;
//     return rule;
//   }
#pragma once

#include "kilim/detail/flow/filter.hh"
#include "kilim/detail/flow/match.hh"
#include "kilim/detail/flow/rss.hh"
#include "kilim/detail/flow/rule.hh"
#include "kilim/detail/flow/toeplitz.hh"
