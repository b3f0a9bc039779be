// SPDX-License-Identifier: BSD-3-Clause
// Tells a finding of the linter: to standard error with the WQE in words, rate-limited a rule, and
// to the journal. Adapter's lock held. Never allocates.
#include <cerrno>
#include <cstdio>

#include <unistd.h>

#include "kilim/prm/dump.hh"
#include "vhca/core/journal.hh"
#include "vhca/lint/lint.hh"

namespace kilim::vhca::lint {

namespace {

constexpr uint64_t told_each = 8;  // from here on only at powers of two

bool is_told(uint64_t n) noexcept {
  return n <= told_each || (n & (n - 1)) == 0;
}

void write_all(std::string_view text) noexcept {
  const int saved = errno;
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  errno = saved;
}

}  // namespace

uint64_t Lint::findings() const noexcept {
  uint64_t n = 0;
  for (uint64_t c : counts_) n += c;
  return n;
}

void Lint::report(LintQueue& q, LintWqe& w, Bytes bytes, const Finding& f) noexcept {
  if (!w.refused) w.rule = f.rule;
  w.refused = true;
  tell({Subject::Kind::send, q.qp->qpn.value(), static_cast<uint16_t>(w.at), bytes,
        queue_kind(q.qp->type)},
       f);
}

void Lint::report(LintRing& r, uint32_t place, Bytes bytes, const Finding& f) noexcept {
  LintRing::Mark& mark = r.marks[place];
  if (!mark.refused) mark.rule = f.rule;
  mark.refused = true;
  tell({Subject::Kind::receive, r.number(), place, bytes, {}, r.shape()}, f);
}

void Lint::tell(const Subject& about, const Finding& f) noexcept {
  const uint64_t n = ++counts_[static_cast<std::size_t>(f.rule)];
  Journal& journal = *around_.journal;
  const bool told = is_told(n);
  const auto index = static_cast<uint16_t>(about.index);
  if (!told && !journal.on()) return journal.lint(Qpn{about.queue}, index, {});
  std::array<char, 4096> buffer;
  prm::Text text{buffer};
  prm::explain_finding(text, f);
  switch (about.kind) {
    case Subject::Kind::send:
      text.put("; WQE ").dec(about.index).put(" of queue ").hex(about.queue).put(" is: ");
      prm::dump_wqe(text, about.bytes, about.queue_kind);
      break;
    case Subject::Kind::receive:
      text.put("; receive WQE ").dec(about.index);
      text.put(about.shape.shared ? " of shared queue " : " of queue ").hex(about.queue);
      text.put(" is: ");
      prm::lint::dump_recv(text, about.bytes, about.shape);
      break;
    case Subject::Kind::request:
      text.put("; a request of the peer of queue ").hex(about.queue);
      if (about.bytes.empty()) break;
      text.put("; WQE ").dec(about.index).put(" is: ");
      prm::dump_wqe(text, about.bytes, about.queue_kind);
      break;
    case Subject::Kind::region:
      text.put("; seen when it went, before any WQE used it");
      break;
  }
  journal.lint(Qpn{about.queue}, index, text.view());
  if (!told) return;
  std::array<char, 4200> line;
  prm::Text out{line};
  out.put("kilim-vhca: ").put(around_.device).put(": lint: ").put(text.view());
  if (n > told_each) out.put("; ").dec(n).put(" times so far");
  out.put('\n');
  write_all(out.view());
}

}  // namespace kilim::vhca::lint
