// SPDX-License-Identifier: BSD-3-Clause
// Why a call is refused, in the words of a few rows: a place names the field, the number that was
// asked for and what is allowed, and answers the errno that it always answered. Who ends the call
// (a verb, a firmware command, a command of the connection manager) tells it and knows the verb's
// name (hca/verb_refusals.hh). Owner: the calling thread, which has one note at a time; nothing is
// kept beyond its call. Never allocates, reads none of the client's memory, answers nothing of its
// own.
#pragma once

#include <cerrno>
#include <cstdint>
#include <span>

#include "kilim/detail/base/result.hh"

namespace kilim::vhca::refusal {

// How a sentence goes on behind the field.
enum class Why : uint8_t {
  none,        // no place has said why
  told,        // it is told already
  most,        // too large a number
  least,       // too small
  equal,       // another one than the only one
  bits,        // bits that are not allowed
  state,       // not from this state
  absent,      // the number of no object
  descriptor,  // the descriptor of no such file
  clash,       // it goes not together with something else
  lacks,       // the device has no such thing
  busy,        // others use it
  full,        // there is no more room
  bytes,       // a part that is too short
  attribute,   // an attribute of an ioctl
  fault,       // an address
  text,        // the field is the sentence
};

struct Row {
  Why why;
  // {0d}, {0}: what was asked for, in decimal or hex; {1d}, {1}: what is allowed.
  const char* sentence;
};
std::span<const Row> rows() noexcept;
const char* sentence_of(Why) noexcept;

struct Note {
  Why why = Why::none;
  const char* field = "";  // lives for ever
  uint64_t asked = 0, limit = 0;
};

// Keeps the note for who ends the call; returns -error.
int note(int error, const Note&) noexcept;
// The thread's note. It is gone then.
Note take() noexcept;
// A call begins, or what is wrong with it is told.
void forget(Why left = Why::none) noexcept;

inline int most(const char* field, uint64_t asked, uint64_t limit, int error = EINVAL) noexcept {
  return note(error, {Why::most, field, asked, limit});
}
inline int least(const char* field, uint64_t asked, uint64_t limit, int error = EINVAL) noexcept {
  return note(error, {Why::least, field, asked, limit});
}
// On whichever side of the two it lies.
inline int range(const char* field, uint64_t asked, uint64_t low, uint64_t high,
                 int error = EINVAL) noexcept {
  return asked < low ? least(field, asked, low, error) : most(field, asked, high, error);
}
inline int equal(const char* field, uint64_t asked, uint64_t wanted, int error = EINVAL) noexcept {
  return note(error, {Why::equal, field, asked, wanted});
}
inline int bits(const char* field, uint64_t asked, uint64_t allowed, int error = EINVAL) noexcept {
  return note(error, {Why::bits, field, asked, allowed});
}
inline int state(const char* field, uint64_t asked, uint64_t now, int error = EINVAL) noexcept {
  return note(error, {Why::state, field, asked, now});
}
inline int absent(const char* field, uint64_t number, int error = EINVAL) noexcept {
  return note(error, {Why::absent, field, number});
}
inline int descriptor(const char* field, uint64_t number, int error = EBADF) noexcept {
  return note(error, {Why::descriptor, field, number});
}
inline int clash(const char* field, uint64_t asked, uint64_t other, int error = EINVAL) noexcept {
  return note(error, {Why::clash, field, asked, other});
}
inline int lacks(const char* field, int error = EOPNOTSUPP) noexcept {
  return note(error, {Why::lacks, field});
}
inline int busy(const char* field, uint64_t users) noexcept {
  return note(EBUSY, {Why::busy, field, users});
}
inline int full(const char* field, int error = ENOMEM) noexcept {
  return note(error, {Why::full, field});
}
inline int bytes(const char* field, uint64_t has, uint64_t needs, int error = EINVAL) noexcept {
  return note(error, {Why::bytes, field, has, needs});
}
inline int attribute(uint64_t id, uint64_t has, int error = EINVAL) noexcept {
  return note(error, {Why::attribute, "attribute", id, has});
}
inline int fault(uint64_t address, int error = EFAULT) noexcept {
  return note(error, {Why::fault, "address", address});
}
// A sentence that stands for itself; what was noted before it says more, and stays.
int text(int error, const char* sentence) noexcept;
inline int of(const Error& e) noexcept {
  return text(e.code, e.what);
}

}  // namespace kilim::vhca::refusal
