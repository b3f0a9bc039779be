// SPDX-License-Identifier: BSD-3-Clause
// Makes the queues and posts by libmlx5.
#include "perf/device/crowd.hh"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <endian.h>

#include "kilim/detail/base/barrier.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::perf {
namespace {

constexpr std::size_t memory_bytes = 65536;
constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::size_t room_bytes = std::size_t{Crowd::most_entries + 4} * Crowd::entry_bytes;

constexpr uint32_t entries_of_a_request = 32;
constexpr uint64_t list_mask =
    prm::umr::mask_len | prm::umr::mask_mkey | prm::umr::mask_access | prm::umr::mask_free;

struct ListWqe {
  mlx5_wqe_ctrl_seg ctrl;
  mlx5_wqe_umr_ctrl_seg umr;
  prm::MkeyContextSeg context;
  mlx5_wqe_data_seg entries[entries_of_a_request];
};
static_assert(sizeof(ListWqe) == 128 + entries_of_a_request * 16);

std::unique_ptr<std::byte[], RigDestroy> pages(std::size_t bytes) {
  return std::unique_ptr<std::byte[], RigDestroy>(new (std::align_val_t{4096}) std::byte[bytes]{});
}

// The offset of an entry's piece. Neighbours in the list are none in memory.
std::size_t place_of(uint32_t entry) noexcept {
  return std::size_t{entry} * 193 % Crowd::most_entries * Crowd::entry_bytes;
}

// Zeroed: libmlx5 leaves queues and doorbell records as the allocator gives them.
void* allocate(ibv_pd*, void*, std::size_t bytes, std::size_t alignment, uint64_t) {
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, whole);
  return memory == nullptr ? nullptr : std::memset(memory, 0, whole);
}
void release(ibv_pd*, void*, void* memory, uint64_t) {
  std::free(memory);
}

}  // namespace

bool Crowd::make_domain() {
  ibv_parent_domain_init_attr attr{};
  attr.pd = device_.pd.get();
  attr.td = device_.domain.get();
  attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  attr.alloc = allocate;
  attr.free = release;
  domain_.reset(ibv_alloc_parent_domain(device_.context.get(), &attr));
  return domain_ != nullptr;
}

ibv_cq* Crowd::create_cq(uint32_t entries) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = entries;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  attr.parent_domain = domain_.get();
  ibv_cq_ex* made = ibv_create_cq_ex(device_.context.get(), &attr);
  return made != nullptr ? ibv_cq_ex_to_cq(made) : nullptr;
}

std::string Crowd::open(const std::string& name) {
  if (std::string why = device_.open(name); !why.empty()) return why;
  if (std::string why = lists_.create(device_); !why.empty()) return why;
  if (!make_domain()) return "no domain for the crowd";
  memory_ = pages(memory_bytes);
  region_.reset(ibv_reg_mr(device_.pd.get(), memory_.get(), memory_bytes, all_access));
  cq_.reset(create_cq(4 * round_requests));
  return region_ && cq_ ? "" : "no memory or no completion queue for the crowd";
}

bool Crowd::add_queue() {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq_.get();
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {.max_send_wr = round_requests,
              .max_recv_wr = round_requests,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  mlx5::VerbsQp qp(ibv_create_qp(domain_.get(), &attr));
  if (!qp || !connect_to_itself(device_, qp.get()).empty()) return false;
  qps_.push_back(std::move(qp));
  return true;
}

void Crowd::expect_idle(Idle what, std::size_t count) {
  if (what == Idle::queue_pair)
    idle_qps_.reserve(count);
  else if (what == Idle::completion_queue)
    idle_cqs_.reserve(count);
  else
    idle_regions_.reserve(count);
}

bool Crowd::add_idle(Idle what, std::size_t count) {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq_.get();
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {.max_send_wr = 16,
              .max_recv_wr = 16,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  bool good = true;
  for (std::size_t i = 0; i < count && good; i++) {
    if (what == Idle::queue_pair) {
      good = idle_qps_.emplace_back(ibv_create_qp(domain_.get(), &attr)) != nullptr;
    } else if (what == Idle::completion_queue) {
      good = idle_cqs_.emplace_back(create_cq(63)) != nullptr;
    } else {
      ibv_mr* mr = ibv_reg_mr(device_.pd.get(), memory_.get(), 4096, all_access);
      good = idle_regions_.emplace_back(mr) != nullptr;
    }
  }
  return good;
}

bool Crowd::grow_queues(std::size_t count) {
  while (qps_.size() < count)
    if (!add_queue()) return false;
  return true;
}

mlx5dv_mkey* Crowd::make_key() {
  mlx5dv_mkey_init_attr attr{};
  attr.pd = device_.pd.get();
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = 4;
  return mlx5dv_create_mkey(&attr);
}
bool Crowd::grow_keys(std::size_t count) {
  while (keys_.size() < count) {
    keys_.emplace_back(make_key());
    if (!keys_.back()) return false;
  }
  return true;
}
bool Crowd::remake_key() {
  mlx5dv_mkey* const key = make_key();
  return key != nullptr && mlx5dv_destroy_mkey(key) == 0;
}

bool Crowd::grow_cqs(std::size_t count) {
  while (cqs_.size() < count) {
    mlx5::VerbsCq cq(create_cq(1));
    if (!cq) return false;
    cqs_.push_back(std::move(cq));
  }
  return true;
}

bool Crowd::make_room() {
  if (room_) return true;
  room_ = pages(2 * room_bytes);
  room_region_.reset(ibv_reg_mr(device_.pd.get(), room_.get(), 2 * room_bytes, all_access));
  mlx5dv_mkey_init_attr attr{};
  attr.pd = device_.pd.get();
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = most_entries;
  list_.reset(mlx5dv_create_mkey(&attr));
  return room_region_ && list_;
}

bool Crowd::fill_key(const mlx5dv_mkey& key, uint32_t first, std::span<const ibv_sge> entries,
                     uint64_t bytes) {
  const auto octowords = static_cast<uint32_t>((entries.size() + 3) / 4 * 4);  // whole granules
  ListWqe w{};
  w.ctrl.opmod_idx_opcode = htobe32(MLX5_OPCODE_UMR);
  w.ctrl.qpn_ds = htobe32(lists_.qp()->qp_num << 8 | (8 + octowords));
  w.ctrl.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
  w.ctrl.imm = htobe32(key.lkey);
  w.umr.flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE | MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET;
  w.umr.klm_octowords = htobe16(static_cast<uint16_t>(octowords));
  w.umr.translation_offset = htobe16(static_cast<uint16_t>(first));
  w.umr.mkey_mask = htobe64(list_mask);
  w.context.access_flags = prm::mkey::local_read | prm::mkey::local_write;
  w.context.qpn_mkey = be32{0xffffff00u | (key.lkey & 0xff)};
  w.context.len = be64{bytes};
  for (std::size_t i = 0; i < entries.size(); i++)
    w.entries[i] = {htobe32(entries[i].length), htobe32(entries[i].lkey), htobe64(entries[i].addr)};
  ibv_wr_start(lists_.ex);
  mlx5dv_wr_raw_wqe(lists_.dv, &w);
  if (ibv_wr_complete(lists_.ex) != 0) return false;
  poll();
  ibv_wc wc;
  return ibv_poll_cq(lists_.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS;
}

bool Crowd::fill_list(uint32_t first, uint32_t count) {
  ibv_sge pieces[entries_of_a_request];
  for (uint32_t i = 0; i < count; i++)
    pieces[i] = {at(place_of(first + i)), entry_bytes, room_region_->lkey};
  return fill_key(*list_, first, std::span(pieces).first(count), uint64_t{entries_} * entry_bytes);
}

bool Crowd::make_list(uint32_t entries) {
  if (!make_room()) return false;
  entries_ = entries;
  for (uint32_t first = 0; first < entries; first += entries_of_a_request)
    if (!fill_list(first, std::min(entries_of_a_request, entries - first))) return false;
  return true;
}

bool Crowd::make_region(std::size_t bytes) {
  if (large_.bytes() == bytes) return true;
  large_region_.reset();
  if (!large_.map(bytes)) return false;
  large_region_.reset(ibv_reg_mr(device_.pd.get(), large_.data(), bytes, all_access));
  return large_region_ != nullptr;
}

bool Crowd::make_tower(uint32_t keys) {
  tower_.clear();
  ibv_sge below{reinterpret_cast<uint64_t>(memory_.get()), entry_bytes, region_->lkey};
  for (uint32_t i = 0; i < keys; i++) {
    tower_.emplace_back(make_key());
    if (!tower_.back() || !fill_key(*tower_.back(), 0, {&below, 1}, entry_bytes)) return false;
    below = {0, entry_bytes, tower_.back()->lkey};
  }
  return true;
}

bool Crowd::write_from(const ibv_sge& source, uint32_t n) {
  ibv_sge from = source;
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {reinterpret_cast<uint64_t>(memory_.get()) + 8192, region_->rkey};
  for (uint32_t i = 0; i < n; i++)
    if (ibv_post_send(qps_[0].get(), &wr, &bad) != 0) return false;
  due_ += n;
  return true;
}
bool Crowd::post_from_region(uint32_t n) {
  const auto end = reinterpret_cast<uint64_t>(large_.data()) + large_.bytes();
  return write_from({end - entry_bytes, entry_bytes, large_region_->lkey}, n);
}
bool Crowd::post_from_tower(uint32_t n) {
  return write_from({0, entry_bytes, tower_.back()->lkey}, n);
}

bool Crowd::post_write(ibv_qp* qp, uint32_t n) {
  const auto base = reinterpret_cast<uint64_t>(memory_.get());
  ibv_sge from{base, 64, region_->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {base + 8192, region_->rkey};
  for (uint32_t i = 0; i < n; i++)
    if (ibv_post_send(qp, &wr, &bad) != 0) return false;
  due_ += n;
  return true;
}

bool Crowd::post_send(uint32_t n) {
  const auto base = reinterpret_cast<uint64_t>(memory_.get());
  ibv_sge from{base, 64, region_->lkey}, to{base + 8192, 64, region_->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_recv_wr recv{}, *bad_recv = nullptr;
  recv.sg_list = &to;
  recv.num_sge = 1;
  for (uint32_t i = 0; i < n; i++) {
    if (ibv_post_recv(qps_[0].get(), &recv, &bad_recv) != 0) return false;
    if (ibv_post_send(qps_[0].get(), &wr, &bad) != 0) return false;
  }
  due_ += 2 * n;
  return true;
}

bool Crowd::post_atomic(uint32_t n) {
  const auto base = reinterpret_cast<uint64_t>(memory_.get());
  ibv_sge to{base, 8, region_->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &to;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.atomic = {base + 8192, 1, 0, region_->rkey};
  for (uint32_t i = 0; i < n; i++)
    if (ibv_post_send(qps_[0].get(), &wr, &bad) != 0) return false;
  due_ += n;
  return true;
}

bool Crowd::post_list() {
  ibv_sge from{0, entries_ * entry_bytes, list_->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {at(room_bytes), room_region_->rkey};
  due_++;
  return ibv_post_send(qps_[0].get(), &wr, &bad) == 0;
}

void Crowd::copy_list() noexcept {
  std::byte* to = room_.get() + room_bytes;
  for (uint32_t i = 0; i < entries_; i++)
    std::memcpy(to + std::size_t{i} * entry_bytes, room_.get() + place_of(i), entry_bytes);
  forget_registers();
}

bool Crowd::drain() {
  // No look beyond what is due: an empty queue would give the device turns that nobody counts.
  ibv_wc wc[2 * round_requests];
  while (due_ != 0) {
    const int n = ibv_poll_cq(cq_.get(), static_cast<int>(std::min(due_, 2 * round_requests)), wc);
    if (n <= 0) return false;
    for (int i = 0; i < n; i++)
      if (wc[i].status != IBV_WC_SUCCESS) return false;
    due_ -= static_cast<uint32_t>(n);
  }
  return true;
}

}  // namespace kilim::perf
