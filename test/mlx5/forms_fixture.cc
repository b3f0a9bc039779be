// SPDX-License-Identifier: BSD-3-Clause
#include "forms_fixture.hh"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>

#include "kilim/detail/queue/rc_wqe.hh"

namespace kilim::test {
namespace {

constexpr uint64_t lists_bytes = 1 << 21;
constexpr uint64_t mapped_bytes = FormRig::arena_bytes + FormRig::flat_bytes + lists_bytes;

}  // namespace

uint64_t bytes_of(const Shown& shown) {
  uint64_t n = 0;
  for (const std::span<std::byte>& s : shown) n += s.size();
  return n;
}

Shown part_of(const Shown& shown, uint64_t at, uint64_t n) {
  Shown part;
  for (const std::span<std::byte>& s : shown) {
    const uint64_t skip = std::min<uint64_t>(at, s.size());
    const uint64_t take = std::min<uint64_t>(n, s.size() - skip);
    if (take != 0) part.push_back(s.subspan(skip, take));
    at -= skip;
    n -= take;
  }
  return part;
}

void FormRig::Unmap::operator()(std::byte* p) const {
  ::munmap(p, mapped_bytes);
}

FormRig::FormRig(const char* name, const char* profile, uint64_t seed) : random_(seed) {
  DeviceSpec config;
  config.name = name;
  config.profile = profile;
  config.lint = "error";
  device.emplace(config);
  if (device->device == nullptr || !make_memory()) return;
  limits = device->device->caps().umr_limits();
  loop.emplace(*device->device, mr::Access::all);
  ok_ = loop->ok();
}

FormRig::~FormRig() {
  if (device && device->device != nullptr) device->device->keys().destroy_mkeys(keys_);
}

bool FormRig::make_memory() {
  void* at =
      ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return false;
  mapped_.reset(static_cast<std::byte*>(at));
  arena_ = mapped_.get();
  flat_ = arena_ + arena_bytes;
  shadow_.resize(arena_bytes);
  for (uint64_t i = 0; i < arena_bytes; i += 8) {
    const uint64_t word = random_();
    std::memcpy(arena_ + i, &word, 8);
  }
  const std::span<std::byte> ranges[] = {{arena_, arena_bytes},
                                         {arena_, arena_bytes / 2},
                                         {arena_ + arena_bytes / 2, arena_bytes / 2},
                                         {flat_, flat_bytes},
                                         {flat_ + flat_bytes, lists_bytes}};
  for (const std::span<std::byte>& r : ranges) {
    Result<mr::Mr> mr = mr::Mr::create(device->device->registrar(), r, mr::Access::all, 4096);
    if (!mr) return false;
    regions_.push_back(*std::move(mr));
  }
  lists.emplace(regions_[4].region());
  return true;
}

std::optional<mr::IndirectMkey> FormRig::key(const mr::MkeyRequest& request) {
  std::array<mr::IndirectMkey, 1> made;
  if (!device->device->keys().create_mkeys(request, made)) return std::nullopt;
  keys_.push_back(made[0]);
  return made[0];
}

uint64_t FormRig::sometimes(uint64_t most) {
  uint64_t bits = 1;
  while (most >> bits != 0) bits++;
  return std::min(most, 1 + below(uint64_t{1} << below(bits + 1)));
}

Lkey FormRig::arena_key(uint64_t offset, uint64_t bytes) {
  constexpr uint64_t half = arena_bytes / 2;
  const bool across = offset < half && offset + bytes > half;
  return regions_[across || below(3) == 0 ? 0 : 1 + offset / half].region().lkey;
}

uint64_t FormRig::address(uint64_t offset) const {
  return reinterpret_cast<uint64_t>(arena_) + offset;
}

bool FormRig::run(queue::WqeCursor& c) {
  c.signal_last();
  c.commit();
  const std::optional<queue::Completion> done = loop->wait(*loop->send_cq);
  if (done && done->ok()) {
    loop->sq->retire(done->wqe_counter);
    return true;
  }
  loop->recover();
  return false;
}

bool FormRig::post(Use how, Lkey key, uint64_t at, uint32_t n) {
  const mr::Region& flat = regions_[3].region();
  const queue::Sge local{flat.iova, n, flat.lkey};
  const queue::Sge keyed{at, n, key};
  const queue::Remote remote{flat.iova, flat.rkey};
  const queue::Remote keyed_remote{at, Rkey{key.value()}};
  queue::WqeCursor c{*loop->sq};
  bool posted = false;
  switch (how) {
    case Use::send_from:
      posted = loop->rq->post(local, 1) && queue::send(c, keyed, {});
      break;
    case Use::recv_into:
      posted = loop->rq->post(keyed, 1) && queue::send(c, local, {});
      break;
    case Use::write_from:
      posted = queue::rdma_write(c, remote, keyed, {});
      break;
    case Use::read_into:
      posted = queue::rdma_read(c, remote, keyed, {});
      break;
    case Use::write_into:
      posted = queue::rdma_write(c, keyed_remote, local, {});
      break;
    case Use::read_from:
      posted = queue::rdma_read(c, keyed_remote, local, {});
      break;
  }
  if (!posted) return false;
  loop->rq->ring();
  if (!run(c)) return false;
  if (how != Use::send_from && how != Use::recv_into) return true;
  const std::optional<queue::Completion> got = loop->wait(*loop->recv_cq);
  if (!got || !got->ok() || got->byte_len != n) return false;
  loop->rq->retire(got->wqe_counter);
  return true;
}

bool FormRig::gather(Use how, Lkey key, uint64_t at, const Shown& want) {
  const auto n = static_cast<uint32_t>(bytes_of(want));
  std::memset(flat_, 0, n);
  if (!post(how, key, at, n)) return false;
  const std::byte* got = flat_;
  for (const std::span<std::byte>& s : want) {
    if (std::memcmp(got, s.data(), s.size()) != 0) return false;
    got += s.size();
  }
  return true;
}

// The reference scatters into a copy; pieces may overlap, and then the later one stays.
bool FormRig::scatter(Use how, Lkey key, uint64_t at, const Shown& want) {
  const auto n = static_cast<uint32_t>(bytes_of(want));
  for (uint64_t i = 0; i < n; i += 8) {
    const uint64_t word = random_();
    std::memcpy(flat_ + i, &word, 8);
  }
  std::memcpy(shadow_.data(), arena_, arena_bytes);
  const std::byte* from = flat_;
  for (const std::span<std::byte>& s : want) {
    std::memcpy(shadow_.data() + (s.data() - arena_), from, s.size());
    from += s.size();
  }
  return post(how, key, at, n) && std::memcmp(shadow_.data(), arena_, arena_bytes) == 0;
}

// NOLINTNEXTLINE(readability-function-size): six parameters
bool FormRig::use(Use how, Lkey key, uint64_t start, const Shown& shown, uint64_t at, uint64_t n) {
  const Shown want = part_of(shown, at, n);
  const bool gathers = how == Use::send_from || how == Use::write_from || how == Use::read_from;
  return gathers ? gather(how, key, start + at, want) : scatter(how, key, start + at, want);
}

bool FormRig::use_somehow(Lkey key, uint64_t start, const Shown& shown) {
  const uint64_t all = bytes_of(shown);
  const uint64_t n = below(4) == 0 ? all : sometimes(all);
  const uint64_t at = below(all - n + 1);
  return use(static_cast<Use>(below(uses)), key, start, shown, at, n);
}

bool FormRig::refused(Lkey key, uint64_t start, uint64_t n) {
  return !post(below(2) != 0 ? Use::write_from : Use::write_into, key, start,
               static_cast<uint32_t>(n));
}

}  // namespace kilim::test
