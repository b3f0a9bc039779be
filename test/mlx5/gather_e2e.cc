// SPDX-License-Identifier: BSD-3-Clause
// Random layouts bound by Kilim's UMR WQEs and used by its own queues: gathered on SEND and WRITE,
// scattered on READ, compared with a plain reference. The device's journal says that it was the
// device that did it.
#include <algorithm>
#include <array>
#include <cstring>

#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "mlx5_fixture.hh"
#include "mlx5_layout_model.hh"
#include "ut.hh"

namespace gather_e2e_ut {
namespace {

using namespace kilim;
using test::config;
using test::Layout;
using vhca::Journal;

constexpr uint32_t max_entries = 52;
constexpr uint64_t area_bytes = 300000;
constexpr uint64_t flat_bytes = uint64_t{max_entries} << 16;

// Regions that layouts take pieces from, two keys bound over them, and a flat area as the other
// side of each transfer.
class Fixture {
 public:
  explicit Fixture(const DeviceSpec& config, uint64_t seed);
  [[nodiscard]] bool ok() const { return ok_; }
  // One layout, one transfer: whether the bytes are the reference's.
  bool gathered_by_send();
  bool gathered_by_write();
  bool scattered_by_read();
  // Pieces down to memory in all layouts so far.
  uint64_t pieces = 0;
  uint32_t layouts = 0;
  std::optional<test::VirtualDevice> device;

 private:
  bool add_region(uint64_t bytes);
  bool add_base_key();
  bool bind(queue::WqeCursor& c, const mr::IndirectMkey& key, const Layout& layout);
  Layout next_layout();
  const mr::IndirectMkey& next_key();
  // Posts what `c` holds and waits; recovers the connection after an error.
  bool completed(queue::Cq& cq);

  std::mt19937_64 random_;
  std::optional<test::Loop> loop_;
  std::vector<std::vector<std::byte>> areas_;
  std::vector<std::byte> flat_;
  std::vector<mr::Mr> regions_;
  std::vector<test::Range> ranges_;
  std::vector<mr::IndirectMkey> keys_;
  uint64_t start_ = 0;  // of the key bound last
  bool ok_ = false;
};

Fixture::Fixture(const DeviceSpec& config, uint64_t seed)
    : device(std::in_place, config), random_(seed), flat_(flat_bytes) {
  if (device->device == nullptr) return;
  loop_.emplace(*device->device, mr::Access::all);
  if (!loop_->ok()) return;
  areas_.reserve(3);
  for (uint64_t i = 0; i < 3; i++) {
    if (!add_region(area_bytes + i * 12345)) return;
  }
  Result<mr::Mr> flat = mr::Mr::create(device->device->registrar(), flat_, mr::Access::all, 4096);
  if (!flat) return;
  regions_.push_back(*std::move(flat));
  keys_.resize(18);
  if (!device->device->keys().create_mkeys(max_entries, keys_)) return;
  ok_ = add_base_key() && add_base_key();
}

bool Fixture::add_region(uint64_t bytes) {
  areas_.emplace_back(bytes);
  for (std::byte& b : areas_.back()) b = static_cast<std::byte>(random_());
  Result<mr::Mr> mr =
      mr::Mr::create(device->device->registrar(), areas_.back(), mr::Access::all, 4096);
  if (!mr) return false;
  const mr::Region& r = mr->region();
  ranges_.push_back({r.lkey, r.iova, r.length, areas_.back().data()});
  regions_.push_back(*std::move(mr));
  return true;
}

// A key that further layouts take pieces from. It stays as it is.
bool Fixture::add_base_key() {
  const Layout layout = test::random_layout(random_, ranges_, max_entries);
  const mr::IndirectMkey key = keys_.back();
  keys_.pop_back();
  queue::WqeCursor c{*loop_->sq};
  if (!bind(c, key, layout)) return false;
  c.signal_last();
  c.commit();
  if (!completed(*loop_->send_cq)) return false;
  ranges_.push_back({key.lkey, start_, layout.length, nullptr, layout.memory});
  return true;
}

bool Fixture::bind(queue::WqeCursor& c, const mr::IndirectMkey& key, const Layout& layout) {
  start_ = random_() % 2 != 0 ? random_() >> 8 : 0;
  // Said also where it is 0: the key may have had another before.
  const umr::ListRequest request{.key = key.lkey,
                                 .max_entries = key.max_entries,
                                 .new_tag = tag_of(key.lkey),
                                 .access = umr::mkey_access(mr::Access::all),
                                 .has_start = true,
                                 .start = start_};
  return umr::umr_list(c, request, umr::View::of(layout.pieces), {.id = 1}).ok();
}

Layout Fixture::next_layout() {
  Layout layout = test::random_layout(random_, ranges_, max_entries);
  layouts++;
  pieces += layout.memory.size();
  return layout;
}

const mr::IndirectMkey& Fixture::next_key() {
  return keys_[random_() % keys_.size()];
}

bool Fixture::completed(queue::Cq& cq) {
  const std::optional<queue::Completion> c = loop_->wait(cq);
  if (c && c->ok()) {
    if (c->of_requester()) loop_->sq->retire(c->wqe_counter);
    return true;
  }
  loop_->recover();
  return false;
}

bool Fixture::gathered_by_write() {
  const Layout layout = next_layout();
  const mr::IndirectMkey& key = next_key();
  const mr::Region& flat = regions_.back().region();
  std::vector<std::byte> expected;
  test::gather(layout, expected);
  const uint64_t at = random_() % (flat_bytes - layout.length + 1);
  queue::WqeCursor c{*loop_->sq};
  if (!bind(c, key, layout)) return false;
  const queue::Sge from{start_, static_cast<uint32_t>(layout.length), key.lkey};
  if (!queue::rdma_write(c, {flat.iova + at, flat.rkey}, from,
                         {.flags = queue::WrFlags::signalled}))
    return false;
  c.commit();
  return completed(*loop_->send_cq) &&
         std::memcmp(&flat_[at], expected.data(), expected.size()) == 0;
}

bool Fixture::gathered_by_send() {
  const Layout layout = next_layout();
  const mr::IndirectMkey& key = next_key();
  const mr::Region& flat = regions_.back().region();
  std::vector<std::byte> expected;
  test::gather(layout, expected);
  if (!loop_->rq->post({flat.iova, static_cast<uint32_t>(layout.length), flat.lkey}, 5))
    return false;
  loop_->rq->ring();
  queue::WqeCursor c{*loop_->sq};
  if (!bind(c, key, layout)) return false;
  const queue::Sge from{start_, static_cast<uint32_t>(layout.length), key.lkey};
  if (!queue::send(c, from, {.flags = queue::WrFlags::signalled})) return false;
  c.commit();
  if (!completed(*loop_->send_cq)) return false;
  const std::optional<queue::Completion> got = loop_->wait(*loop_->recv_cq);
  return got && got->ok() && got->byte_len == layout.length &&
         loop_->rq->retire(got->wqe_counter) == 5 &&
         std::memcmp(flat_.data(), expected.data(), expected.size()) == 0;
}

// The reference scatters into the areas first, keeps what came out, and puts the old bytes back.
bool Fixture::scattered_by_read() {
  const Layout layout = next_layout();
  const mr::IndirectMkey& key = next_key();
  const mr::Region& flat = regions_.back().region();
  for (uint64_t i = 0; i < layout.length; i += 8) {
    const uint64_t word = random_();
    std::memcpy(&flat_[i], &word, std::min<uint64_t>(8, layout.length - i));
  }
  const std::vector<std::vector<std::byte>> before = areas_;
  test::scatter(layout, flat_.data());
  const std::vector<std::vector<std::byte>> expected = areas_;
  for (std::size_t i = 0; i < areas_.size(); i++)
    std::memcpy(areas_[i].data(), before[i].data(), before[i].size());
  queue::WqeCursor c{*loop_->sq};
  if (!bind(c, key, layout)) return false;
  const queue::Sge into{start_, static_cast<uint32_t>(layout.length), key.lkey};
  if (!queue::rdma_read(c, {flat.iova, flat.rkey}, into, {.flags = queue::WrFlags::signalled}))
    return false;
  c.commit();
  return completed(*loop_->send_cq) && areas_ == expected;
}

template <auto Transfer>
void thousand(const char* name, uint64_t seed) {
  Fixture f{config(name), seed};
  CU_ASSERT_TRUE_FATAL(f.ok());
  const Journal& journal = f.device->journal();
  const uint64_t umrs = journal.count(Journal::Kind::umr);
  const uint64_t pieces = journal.pieces();
  for (int i = 0; i < 1100; i++) CU_ASSERT_TRUE_FATAL((f.*Transfer)());
  EQUAL(journal.count(Journal::Kind::umr) - umrs, f.layouts);
  CU_ASSERT_TRUE(journal.pieces() - pieces >= f.pieces);
  EQUAL(journal.count(Journal::Kind::error), 0);
}

void sends() {
  thousand<&Fixture::gathered_by_send>("gather0", 1);
}
void writes() {
  thousand<&Fixture::gathered_by_write>("gather1", 2);
}
void reads() {
  thousand<&Fixture::scattered_by_read>("gather2", 3);
}

const kilim::test::Case cases[] = {
    {"1100 random layouts gathered by SEND", sends},
    {"1100 random layouts gathered by WRITE", writes},
    {"1100 random layouts scattered by READ", reads},
};

}  // namespace
}  // namespace gather_e2e_ut

KILIM_TEST_SUITE(gather, gather_e2e_ut::cases)
