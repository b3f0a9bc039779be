// SPDX-License-Identifier: BSD-3-Clause
// Devices and completions. Layouts are those of mlx5dv.h; commands those of the kernel's
// mlx5_ifc.h.
#include "rig.hh"

#include <cerrno>
#include <ctime>

#include <sys/mman.h>

#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/mmio.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/hca_cap.hh"

namespace kilim::exam {
namespace {

constexpr std::size_t page = 4096;

ibv_device* find_device(ibv_device** list, const std::string& name) {
  for (ibv_device** d = list; d != nullptr && *d != nullptr; d++) {
    if (name.empty() ? mlx5dv_is_supported(*d) : name == ibv_get_device_name(*d)) return *d;
  }
  return nullptr;
}

ibv_context* open_either_way(ibv_device* device, bool& devx) {
  mlx5dv_context_attr attr{};
  attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  ibv_context* context = mlx5dv_open_device(device, &attr);
  devx = context != nullptr;
  return devx ? context : ibv_open_device(device);
}

// The first GID of RoCE v2; else of v1, else an InfiniBand port's.
void choose_gid(Device& d) {
  for (int version : {IBV_GID_TYPE_ROCE_V2, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_IB}) {
    for (uint32_t i = 0; i < static_cast<uint32_t>(d.port.gid_tbl_len) && i < 256; i++) {
      ibv_gid_entry entry{};
      if (ibv_query_gid_ex(d.context, 1, i, &entry, 0) != 0) continue;
      if (entry.gid_type != static_cast<uint32_t>(version)) continue;
      d.gid = entry.gid;
      d.gid_index = static_cast<uint8_t>(i);
      d.has_gid = true;
      return;
    }
  }
}

}  // namespace

double seconds_now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

int errno_now() {
  return errno;
}

void give_up(Answer& answer, const char* what, int error) {
  answer.not_run(printed("%s: %s", what, errno_name(error).c_str()));
}

Device open_device(const Setting& setting, Answer& answer, const std::string& name) {
  const std::string& wanted = name.empty() ? setting.device : name;
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_device* found = find_device(list, wanted);
  if (found == nullptr)
    answer.not_run(wanted.empty() ? "there is no mlx5 device"
                                  : "there is no device " + wanted + "; ibv_devices lists them");
  if (!mlx5dv_is_supported(found)) answer.not_run(wanted + " is no mlx5 device");
  Device d;
  d.answer = &answer;
  d.context = open_either_way(found, d.devx);
  if (d.context == nullptr) give_up(answer, "the device cannot be opened");
  d.pd = ibv_alloc_pd(d.context);
  if (d.pd == nullptr) give_up(answer, "ibv_alloc_pd() is refused");
  if (const int rc = ibv_query_port(d.context, 1, &d.port); rc != 0)
    give_up(answer, "ibv_query_port() is refused", rc);
  if (const int rc = ibv_query_device_ex(d.context, nullptr, &d.attr); rc != 0)
    give_up(answer, "ibv_query_device_ex() is refused", rc);
  d.ethernet = d.port.link_layer == IBV_LINK_LAYER_ETHERNET;
  choose_gid(d);
  d.umr_sets_atomics = d.capability(0, 0x208, 1).value_or(0) == 0;  // umr_modify_atomic_disabled
  return d;
}

uint8_t* Device::pages(std::size_t bytes) const {
  bytes = (bytes + page - 1) / page * page;
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) give_up(*answer, "no memory is left");
  std::memset(at, 0, bytes);
  return static_cast<uint8_t*>(at);
}

ibv_mr* Device::reg(void* at, std::size_t bytes, int access) const {
  ibv_mr* mr = ibv_reg_mr(pd, at, bytes, access);
  if (mr == nullptr) give_up(*answer, "ibv_reg_mr() is refused");
  return mr;
}

int Device::command(Bytes in, std::vector<uint8_t>& out) const {
  if (!devx) return EOPNOTSUPP;
  const int rc = mlx5dv_devx_general_cmd(context, in.data(), in.size(), out.data(), out.size());
  if (rc == 0) return 0;
  return rc > 0 ? rc : errno;
}

std::optional<uint32_t> Device::capability(uint16_t group, uint16_t bit, uint16_t width) const {
  const uint16_t op_mod = static_cast<uint16_t>(group << 1 | 1);
  const std::array<uint8_t, 16> in{
      prm::cmd::query_hca_cap >> 8,      prm::cmd::query_hca_cap & 0xff, 0, 0, 0, 0,
      static_cast<uint8_t>(op_mod >> 8), static_cast<uint8_t>(op_mod)};
  std::vector<uint8_t> out(16 + prm::cmd::hca_cap_bytes);
  if (command(in, out) != 0) return std::nullopt;
  return prm::cap_get(std::as_bytes(std::span(out)).subspan(16), {bit, width});
}

std::string Completion::text() const {
  if (!failed()) return "ok";
  return printed("0x%02x vendor 0x%02x hardware 0x%02x type 0x%02x", syndrome(), vendor(),
                 bytes[52], bytes[53]);
}

CompletionQueue::CompletionQueue(const Device& device, ibv_cq* queue) : cq(queue) {
  mlx5dv_obj object{};
  object.cq = {cq, &view};
  if (mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ) != 0)
    give_up(*device.answer, "mlx5dv_init_obj() of a completion queue");
}

CompletionQueue CompletionQueue::make(const Device& device, int entries, ibv_cq_init_attr_ex attr,
                                      mlx5dv_cq_init_attr* mlx5) {
  if (mlx5 == nullptr) {
    ibv_cq* plain = ibv_create_cq(device.context, entries, nullptr, nullptr, 0);
    if (plain == nullptr) give_up(*device.answer, "ibv_create_cq() is refused");
    return {device, plain};
  }
  attr.cqe = static_cast<uint32_t>(entries);
  ibv_cq_ex* made = mlx5dv_create_cq(device.context, &attr, mlx5);
  if (made == nullptr) give_up(*device.answer, "mlx5dv_create_cq() is refused");
  return {device, ibv_cq_ex_to_cq(made)};
}

uint8_t* CompletionQueue::entry(uint32_t number) const {
  const std::size_t skip = view.cqe_size == 128 ? 64 : 0;
  return static_cast<uint8_t*>(view.buf) +
         std::size_t{(consumed_ + number) & (view.cqe_cnt - 1)} * view.cqe_size + skip;
}

void CompletionQueue::skip(uint32_t count) {
  consumed_ += count;
  record_store(static_cast<be32*>(static_cast<void*>(view.dbrec)), be32{consumed_ & 0xffffff});
}

std::optional<Completion> CompletionQueue::next(double seconds) {
  const double end = seconds_now() + seconds;
  const uint8_t* at = entry(0);
  const uint8_t owner = (consumed_ & view.cqe_cnt) != 0 ? 1 : 0;
  for (uint32_t polls = 1;; polls++) {
    const uint8_t own = *static_cast<const volatile uint8_t*>(at + 63);
    if (own >> 4 != 15 && (own & 1) == owner) break;
    if (polls % 64 == 0 && seconds_now() > end) return std::nullopt;
    if (polls % 256 == 0) {
      const timespec pause{0, 20000};
      ::nanosleep(&pause, nullptr);
    }
  }
  after_owner_bit();
  Completion c{};
  std::memcpy(c.bytes.data(), at, c.bytes.size());
  skip(1);
  return c;
}

}  // namespace kilim::exam
