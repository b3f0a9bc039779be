// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Address Translation and Protection"; IBTA 10.6, "Memory Management". What a key's checks
// answer, as the owner of the memory sees it: a responder tells the requester of a remote access
// error instead (IBTA 9.7.4.1.5, "Responder R_Key Validation"). Pure values, any thread.
#pragma once

#include "vhca/core/verdict.hh"

namespace kilim::vhca::tpt::protection {

constexpr Verdict error(const char* why, uint8_t cause = hardware::unknown) noexcept {
  return {prm::Syndrome::local_prot, cause, why};
}

inline constexpr Verdict no_key = error("no such key", hardware::no_key);
inline constexpr Verdict tag = error("stale key", hardware::no_key);
inline constexpr Verdict free = error("free key", hardware::no_key);
inline constexpr Verdict pd = error("key of another protection domain", hardware::other_domain);
inline constexpr Verdict qpn = error("key of another queue");
inline constexpr Verdict rights = error("right not granted", hardware::bounds);
inline constexpr Verdict bounds = error("out of bounds", hardware::bounds);
// Keys of keys of keys, or a key that contains itself.
inline constexpr Verdict depth = error("too many keys of keys");
inline constexpr Verdict list = error("hole in the list");
inline constexpr Verdict steps = error("more pieces than a request may have");
// The client has unmapped it: found while copying.
inline constexpr Verdict gone = error("memory is gone", hardware::unreadable);
// odp.c, mlx5_ib_mr_wqe_pfault_handler() maps less than the request asks for.
inline constexpr Verdict handler =
    error("the kernel does not find the missing page through the key");
// The page is coming: the same access again.
inline constexpr Verdict page{prm::Syndrome::local_prot, "page is not there yet", Again::page};
// A signed key where none may be used, or one without the value with which its signatures begin.
inline constexpr Verdict signature = error("a signed key cannot be used so");
// An encrypted key without the rule that says how, or without the object that has the keys.
inline constexpr Verdict crypto = error("an encrypted key cannot be used so");
inline constexpr Verdict crypto_begin = error("data arrive from within a block of a data unit on");

}  // namespace kilim::vhca::tpt::protection
