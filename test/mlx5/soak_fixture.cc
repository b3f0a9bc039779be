// SPDX-License-Identifier: BSD-3-Clause
#include "soak_fixture.hh"

#include <cstring>

namespace kilim::test {
namespace {

constexpr uint64_t memory_bytes = 4 << 20;
constexpr uint32_t layout_count = 256;
constexpr uint32_t group = 4;  // keys of one change
constexpr mkey::Bind all{.access = umr::mkey_access(mr::Access::all)};

}  // namespace

Soak::Soak(device::Device& d, rte_rcu_qsbr* qsbr) : device(d), memory(memory_bytes), readers(qsbr) {
  std::mt19937_64 random{1};
  for (std::byte& b : memory) b = static_cast<std::byte>(random());
  Result<mr::Mr> mr = mr::Mr::create(d.registrar(), memory, mr::Access::all, 4096);
  auto e = mkey::Epochs::create(qsbr, 2 * soak_lcores);
  if (!mr || !e) return;
  epochs = *std::move(e);
  region.emplace(*std::move(mr));
  for (uint32_t i = 0; i < layout_count; i++) {
    SoakLayout l;
    for (uint64_t n = 1 + random() % soak_entries; n != 0; n--) {
      const uint64_t bytes = 1 + random() % (soak_bytes / soak_entries);
      const uint64_t at = random() % (memory_bytes - bytes);
      l.pieces.push_back(
          {region->region().iova + at, static_cast<uint32_t>(bytes), region->region().lkey});
      l.bytes.insert(l.bytes.end(), &memory[at], &memory[at] + bytes);
    }
    layouts.push_back(std::move(l));
  }
}

SoakQueue::SoakQueue(Soak& soak, uint64_t seed)
    : soak_(soak),
      random_(seed),
      area_(soak_slots * soak_bytes),
      loop_(soak.device, mr::Access::all) {
  Result<mr::Mr> mr = mr::Mr::create(soak.device.registrar(), area_, mr::Access::all, 4096);
  if (mr) target_.emplace(*std::move(mr));
}

bool SoakQueue::shows(uint32_t place, uint32_t layout) const {
  const std::vector<std::byte>& bytes = soak_.layouts[layout].bytes;
  return std::memcmp(&area_[std::size_t{place} * soak_bytes], bytes.data(), bytes.size()) == 0;
}

// ---- keys

BindingQueue::BindingQueue(Soak& soak, uint32_t lcore, mkey::InvalidatePolicy invalidate)
    : SoakQueue(soak, 100 + lcore), lcore_(lcore), ending_(invalidate) {
  auto pool = mkey::MkeyPool::create(soak.device.keys(), 64, soak_entries);
  if (!pool) return;
  pool_ = *std::move(pool);
  const device::Caps& caps = soak.device.caps();
  const mkey::MkeyBinderConfig config{.fences = umr::FencePlanner{caps.umr_fence},
                                      .invalidate = invalidate,
                                      .keep_atomic = !caps.umr_atomic,
                                      .lcore = static_cast<uint16_t>(lcore),
                                      .max_indirection = caps.max_indirection};
  auto binder = mkey::MkeyBinder::create(*loop_.sq, *pool_, *soak.epochs, config);
  if (binder) binder_ = *std::move(binder);
}

BindingQueue::~BindingQueue() {
  loop_.qp.destroy();
  if (binder_ == nullptr) return;
  binder_->release_owner();
  for (mkey::Binding& b : keys_) b.end();
}

void BindingQueue::completed(const queue::Completion& c) noexcept {
  (void)binder_->handle_completion(c);
  if (!c.ok()) error_ = true;
}

void BindingQueue::step() noexcept {
  queue::Completion c[16];
  const uint32_t n = loop_.send_cq->poll(c);
  for (uint32_t i = 0; i < n; i++) completed(c[i]);
  if (error_) recover();
  binder_->poll();
  if (!loop_.sq->idle()) return;
  if (count_ != 0) end_change();
  begin();
}

void BindingQueue::begin() noexcept {
  if (binder_->flush()) return;
  count_ = group;
  first_ = static_cast<uint32_t>(random_() % (soak_slots / group)) * group;
  const bool whole = std::all_of(&keys_[first_], &keys_[first_] + group,
                                 [](const mkey::Binding& b) { return b && b.valid(); });
  const bool may_swap = ending_ == mkey::InvalidatePolicy::at_once && whole;
  if (may_swap && random_() % 4 != 0)
    swap();
  else
    replace();
}

// The old handles stay published meanwhile.
void BindingQueue::swap() noexcept {
  std::array<mkey::SwapItem, group> items;
  for (uint32_t i = 0; i < group; i++) {
    const uint32_t layout = shows_[first_ + i] = static_cast<uint32_t>(random_() % layout_count);
    items[i] = {&keys_[first_ + i], umr::View::of(soak_.layouts[layout].pieces), all};
  }
  written_ = false;
  if (binder_->swap(items, 0).ok())
    counts.swaps++;
  else
    count_ = 0;  // all tags are used up, and no key is free: later
}

// The old keys end; new ones are written through at once, and published when they are valid.
void BindingQueue::replace() noexcept {
  queue::WqeCursor c{*loop_.sq};
  const uint64_t before = counts.replaced;
  for (uint32_t i = first_; i < first_ + count_; i++) {
    soak_.published[lcore_][i].store(0, std::memory_order_release);
    keys_[i].end();
    keys_[i] = binder_->claim();
    if (!keys_[i]) continue;
    const SoakLayout& l =
        soak_.layouts[shows_[i] = static_cast<uint32_t>(random_() % layout_count)];
    if (!binder_->bind(c, keys_[i], all, umr::View::of(l.pieces)).ok()) counts.wrong++;
    const queue::Sge from{0, static_cast<uint32_t>(l.bytes.size()), keys_[i].lkey_behind(c)};
    if (!queue::rdma_write(c, {address(i), target_->region().rkey}, from, {})) counts.wrong++;
    counts.replaced++;
  }
  // An error now and then: a write to nowhere.
  if (counts.replaced != before && ++changes_ % soak_.error_every == 0)
    (void)queue::rdma_write(c, {16, Rkey{0}}, queue::Sge{address(0), 1, target_->region().lkey},
                            {});
  written_ = true;
  binder_->commit(c);
}

void BindingQueue::end_change() noexcept {
  for (uint32_t i = first_; i < first_ + count_; i++) {
    if (!keys_[i] || !keys_[i].valid()) continue;
    if (written_ && shows(i, shows_[i])) counts.writes++;
    if (written_ && !shows(i, shows_[i])) counts.wrong++;
    soak_.published[lcore_][i].store(Handle::pack(keys_[i].rkey(), shows_[i]),
                                     std::memory_order_release);
  }
  count_ = 0;
}

void BindingQueue::recover() noexcept {
  recover_queue(*this);
  binder_->recover();
  loop_.sq->reset();
  error_ = false;
  for (uint32_t i = 0; i < soak_slots; i++) {
    if (keys_[i] && keys_[i].valid()) continue;
    soak_.published[lcore_][i].store(0, std::memory_order_release);
    keys_[i].end();
  }
  count_ = 0;
}

// ---- traffic

ReadingQueue::ReadingQueue(Soak& soak, uint64_t seed)
    : SoakQueue(soak, seed), clock_(soak.epochs->add_queue()) {}

ReadingQueue::~ReadingQueue() {
  soak_.epochs->remove_queue(clock_);
}

void ReadingQueue::completed(const queue::Completion& c) noexcept {
  const auto place = static_cast<uint32_t>(loop_.sq->retire(c.wqe_counter));
  left_--;
  if (c.ok()) {
    if (shows(place, expects_[place]))
      counts.reads++;
    else
      counts.wrong++;
    return;
  }
  error_ = true;
  if (c.syndrome == prm::Syndrome::wr_flush) return;
  counts.faults++;
  if (owner_[place] != 0) counts.wrong++;  // the other lcore ends its keys after the epoch
}

void ReadingQueue::step() noexcept {
  queue::Completion c[window];
  const uint32_t n = loop_.send_cq->poll(c);
  for (uint32_t i = 0; i < n; i++) completed(c[i]);
  if (error_) {
    recover_queue(*this);
    clock_->recover(*loop_.sq);
    loop_.sq->reset();
    left_ = 0;
    error_ = false;
  }
  if (left_ == 0) post();
  clock_->publish(*loop_.sq);
}

void ReadingQueue::post() noexcept {
  queue::WqeCursor c{*loop_.sq};
  for (uint32_t i = 0; i < window; i++) {
    const auto owner = static_cast<uint32_t>(random_() % soak_lcores);
    const uint64_t word =
        soak_.published[owner][random_() % soak_slots].load(std::memory_order_acquire);
    if (word == 0) continue;
    const Handle h = Handle::unpack(word);
    const auto bytes = static_cast<uint32_t>(soak_.layouts[h.layout].bytes.size());
    const queue::Sge into{address(i), bytes, target_->region().lkey};
    expects_[i] = h.layout;
    owner_[i] = owner;
    left_++;
    if (!queue::rdma_read(c, {0, h.rkey}, into, {.id = i, .flags = queue::WrFlags::signalled}))
      counts.wrong++;
  }
  c.commit();
}

}  // namespace kilim::test
