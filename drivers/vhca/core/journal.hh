// SPDX-License-Identifier: BSD-3-Clause
// What the adapter did: a count per kind always, and a line per happening when opened on a file.
// One journal an adapter, written under the adapter's lock; counts may be read by any thread. A
// line is one write() to a file opened O_APPEND and carries the process's id, so that processes and
// adapters may share a file. Off it costs one branch. Never allocates after open(). A line that
// cannot be written is said on stderr, once, and failed() from then on: who reads a journal relies
// on the lines that are not there too.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/prm/syndrome.hh"

namespace kilim::vhca {

class Journal {
 public:
  enum class Kind : uint8_t {
    wqe,                // a send request was decoded
    recv,               // a receive request was taken
    translated,         // a key was translated
    umr,                // a UMR was applied to a key
    invalidate,         // a key was invalidated
    cqe,                // a completion was written
    error,              // a request failed
    async,              // an asynchronous event was raised
    command,            // a firmware command was carried out
    frame_out,          // a frame left for the wire
    frame_in,           // a frame came from the wire
    frame_drop,         // a frame was dropped
    fault,              // client memory was not there
    unexecuted,         // a send request completed without being executed, as was asked
    page_fault,         // pages were brought in for an access
    page_invalidation,  // pages were taken away
    page_prefetch,      // pages were brought in because of an advice
    sign_error,         // a block's signature was wrong
    lint,               // a WQE broke a rule of the linter
    tag,                // a matching list was changed, or a message came to one
    explained,          // why a request failed, where that was asked for
    refused,            // a verb was refused
  };
  static constexpr std::size_t kinds = 22;
  enum class Format : uint8_t { text, json };

  // Counts only.
  Journal() = default;
  // Lines too, appended to the file at `path`; `device` is the adapter's name. A pipe has a reader
  // already, else ENXIO; it may keep us waiting for patience_ms at most.
  static Result<std::unique_ptr<Journal>> open(const char* path, Format format,
                                               std::string_view device);
  ~Journal() { close(); }
  // Writes the summary; only counts from then on.
  void close() noexcept;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Whether lines are written.
  [[nodiscard]] bool on() const noexcept { return static_cast<bool>(file_); }
  // A line is missing: the disk is full, the reader of a pipe has gone.
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  // Milliseconds that a full pipe is waited for, then failed().
  static constexpr int patience_ms = 3000;
  static constexpr int exit_failed = 74;  // sysexits.h: an error while doing I/O on some file
  // How often it has happened since the adapter was made. Any thread.
  [[nodiscard]] uint64_t count(Kind k) const noexcept { return counts_[index(k)].read(); }
  // Pieces of memory of all translations.
  [[nodiscard]] uint64_t pieces() const noexcept { return pieces_.read(); }

  // One function a kind. Adapter's lock held. Numbers are as in the WQE or CQE: `wqe_index` counts
  // WQEBBs modulo 2^16, `ds` is the WQE's length in octowords (PRM, "Send WQE Format").
  void wqe(Qpn qp, uint16_t wqe_index, uint8_t opcode, uint8_t ds) noexcept {
    note(Kind::wqe, {qp.value(), wqe_index, opcode, ds});
  }
  void recv(Qpn qp, uint16_t wqe_index, uint32_t bytes) noexcept {
    note(Kind::recv, {qp.value(), wqe_index, bytes});
  }
  // `pieces` of memory that the range of `bytes` bytes was made of.
  void translated(uint32_t key, uint32_t pieces, uint64_t bytes) noexcept {
    pieces_.add(pieces);
    note(Kind::translated, {key, pieces, bytes});
  }
  // `entries` of the list that was written; `mkey_mask` as in the control segment of the UMR.
  void umr(uint32_t key, uint32_t entries, uint64_t bytes, uint64_t mkey_mask) noexcept {
    note(Kind::umr, {key, entries, bytes, mkey_mask});
  }
  void invalidate(uint32_t key) noexcept { note(Kind::invalidate, {key}); }
  void cqe(Cqn cq, Qpn qp, uint8_t cqe_opcode, uint16_t wqe_index, uint32_t bytes) noexcept {
    note(Kind::cqe, {cq.value(), qp.value(), cqe_opcode, wqe_index, bytes});
  }
  // Counts requests that took the straight way (exec/plain.hh) while nobody observed it.
  void plain(uint64_t requests, uint64_t pieces, uint64_t completions) noexcept {
    counts_[index(Kind::wqe)].add(requests);
    counts_[index(Kind::translated)].add(requests);
    pieces_.add(pieces);
    counts_[index(Kind::cqe)].add(completions);
  }
  // Counts SENDs, each with the receive that it used.
  void plain_messages(uint64_t requests, uint64_t completions) noexcept {
    counts_[index(Kind::recv)].add(requests);
    plain(requests, 2 * requests, completions);
  }
  // Frames that went out and came in so, and what they asked for.
  struct Frames {
    uint64_t requests = 0, frames = 0, pieces = 0;
  };
  void plain_sent(const Frames& n) noexcept {
    counts_[index(Kind::wqe)].add(n.requests);
    counts_[index(Kind::translated)].add(n.frames);
    pieces_.add(n.pieces);
    counts_[index(Kind::frame_out)].add(n.frames);
  }
  void plain_received(uint64_t frames) noexcept {
    counts_[index(Kind::recv)].add(frames);
    counts_[index(Kind::translated)].add(frames);
    pieces_.add(frames);
    counts_[index(Kind::cqe)].add(frames);
    counts_[index(Kind::frame_in)].add(frames);
  }
  // `why` is a short sentence with static storage, without quotes.
  void error(Qpn qp, prm::Syndrome syndrome, uint8_t vendor_syndrome, uint16_t wqe_index,
             const char* why) noexcept {
    note(Kind::error, {qp.value(), static_cast<uint8_t>(syndrome), vendor_syndrome, wqe_index},
         why);
  }
  // `type` as EventSink::async(); `number` of the queue, 0 for the adapter.
  void async(uint32_t type, uint32_t number) noexcept { note(Kind::async, {type, number}); }
  // The line shows the input, up to command_bytes_shown of it, as hexadecimal digits.
  void command(uint16_t opcode, uint8_t status, uint32_t syndrome,
               std::span<const std::byte> in) noexcept {
    counts_[index(Kind::command)].add(1);
    if (on()) write_command({opcode, status, syndrome}, in);
  }
  static constexpr std::size_t command_bytes_shown = 128;
  // `port` from 1, as verbs count them; `bytes` of the whole frame without FCS.
  void frame_out(uint32_t port, uint32_t bytes) noexcept { note(Kind::frame_out, {port, bytes}); }
  void frame_in(uint32_t port, uint32_t bytes) noexcept { note(Kind::frame_in, {port, bytes}); }
  void frame_drop(uint32_t port, uint32_t bytes, const char* why) noexcept {
    note(Kind::frame_drop, {port, bytes}, why);
  }
  void unexecuted(Qpn qp, uint16_t wqe_index) noexcept {
    note(Kind::unexecuted, {qp.value(), wqe_index});
  }
  // `address` of the client; `bytes` of the access that failed.
  void fault(uint64_t address, uint32_t bytes) noexcept { note(Kind::fault, {address, bytes}); }
  // On-demand paging: pages of 4096 bytes from `address` on.
  void page_fault(uint64_t address, uint64_t pages) noexcept {
    note(Kind::page_fault, {address, pages});
  }
  void page_invalidation(uint64_t address, uint64_t pages) noexcept {
    note(Kind::page_invalidation, {address, pages});
  }
  void page_prefetch(uint32_t key, uint64_t address, uint64_t pages) noexcept {
    note(Kind::page_prefetch, {key, address, pages});
  }
  // `news` as prm::TagNews; `unexpected` messages so far.
  void tag(uint32_t srqn, uint8_t news, uint16_t entry, uint32_t bytes,
           uint16_t unexpected) noexcept {
    note(Kind::tag, {srqn, news, entry, bytes, unexpected});
  }
  void sign_error(uint32_t key, uint8_t domain, uint16_t syndrome, uint64_t offset) noexcept {
    note(Kind::sign_error, {key, domain, syndrome, offset});
  }
  // `text` is the finding and the WQE in words, without quotes.
  void lint(Qpn qp, uint16_t wqe_index, std::string_view text) noexcept {
    counts_[index(Kind::lint)].add(1);
    if (on()) write_text(Kind::lint, {qp.value(), wqe_index}, text);
  }

  // `asked`: key, address, bytes; all 0 where it is about no memory. `text` as of lint().
  void explained(Qpn qp, uint16_t wqe_index, const std::array<uint64_t, 3>& asked,
                 std::string_view text) noexcept {
    counts_[index(Kind::explained)].add(1);
    if (on())
      write_text(Kind::explained, {qp.value(), wqe_index, asked[0], asked[1], asked[2]}, text);
  }
  // `asked`, `limit`: the number that was asked for and what is allowed; `text` opens with the
  // verb.
  void refused(int error, uint64_t asked, uint64_t limit, std::string_view text) noexcept {
    counts_[index(Kind::refused)].add(1);
    if (on()) write_text(Kind::refused, {static_cast<uint64_t>(error), asked, limit}, text);
  }

 private:
  using Values = std::array<uint64_t, 5>;
  static constexpr std::size_t index(Kind k) noexcept { return static_cast<std::size_t>(k); }
  void note(Kind k, const Values& values, const char* why = nullptr) noexcept {
    counts_[index(k)].add(1);
    if (on()) [[unlikely]]
      write_line(k, values, why);
  }
  void write_line(Kind k, const Values& values, const char* why) noexcept;
  void write_command(const Values& values, std::span<const std::byte> in) noexcept;
  void write_text(Kind k, const Values& values, std::string_view text) noexcept;
  void write_summary() noexcept;
  class Line;
  void put(Line& line) noexcept;
  // Says it on stderr and writes nothing more.
  void fail(int error) noexcept;

  std::array<Counter, kinds> counts_{};
  Counter pieces_;
  Fd file_;  // none: counts only
  std::string path_;
  std::atomic<bool> failed_{false};
  Format format_ = Format::text;
  std::array<char, 32> device_{};  // the adapter's name, cut to what fits
};

}  // namespace kilim::vhca
