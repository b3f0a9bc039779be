// SPDX-License-Identifier: BSD-3-Clause
// Keys whose bytes are signed or encrypted on their way. umr::SignRule says how blocks are signed
// in memory and on the wire (T10-DIF or a CRC) and what the device checks; umr::CryptoRule which
// side is encrypted by AES-XTS. Users of such a key address bytes as they are on the wire.
//
// Threads: the queue's worker. Never allocates, blocks or logs.
//
// Errors: an Outcome, as of umr.hh; raw_crypto: the device cannot do this order of both. A
// signature that does not match comes as a completion, and the next check of the key arms it again.
//
// Example:
//   kilim::umr::SignRule strip_crc() {
//     kilim::umr::SignRule rule;
//     rule.wire.kind = kilim::umr::SignKind::crc32c;  // checked on arrival, not stored
//     return rule;
//   }
#pragma once

#include "kilim/detail/umr/crypto.hh"
#include "kilim/detail/umr/signature.hh"
