// SPDX-License-Identifier: BSD-3-Clause
// For tests: an adapter with one open of it, and ioctls built attribute by attribute as a client
// library would, or as none would. One thread.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "census_fixture.hh"
#include "vhca/core/journal.hh"
#include "vhca/hca/hca.hh"
#include "vhca/uverbs/device_file.hh"
#include "vhca/wire/wire.hh"

namespace kilim::test {

class Ioctl {
 public:
  Ioctl(uint16_t object, uint16_t method) {
    bytes_.resize(sizeof(ib_uverbs_ioctl_hdr));
    header().object_id = object;
    header().method_id = method;
    header().driver_id = RDMA_DRIVER_MLX5;
  }
  ib_uverbs_ioctl_hdr& header() { return *reinterpret_cast<ib_uverbs_ioctl_hdr*>(bytes_.data()); }
  ib_uverbs_attr& attr(std::size_t i) { return header().attrs[i]; }

  Ioctl& raw(uint16_t id, uint16_t len, uint64_t data) {
    ib_uverbs_attr a{};
    a.attr_id = id;
    a.len = len;
    a.flags = UVERBS_ATTR_F_MANDATORY;
    a.data = data;
    for (const std::byte b : std::as_bytes(std::span(&a, 1))) bytes_.push_back(b);
    header().num_attrs++;
    return *this;
  }
  // A value or a structure of the caller's, which stays where it is.
  template <typename T>
  Ioctl& in(uint16_t id, const T& value) {
    uint64_t data = reinterpret_cast<uintptr_t>(&value);
    if (sizeof(T) <= 8) std::memcpy(&(data = 0), &value, sizeof(T));
    return raw(id, sizeof(T), data);
  }
  template <typename T>
  Ioctl& out(uint16_t id, T& value) {
    return raw(id, sizeof(T), reinterpret_cast<uintptr_t>(&value));
  }
  Ioctl& handle(uint16_t id, uint64_t value = 0) { return raw(id, 0, value); }

  // 0 or a negative errno.
  int run(vhca::uverbs::DeviceFile& file) {
    header().length = static_cast<uint16_t>(bytes_.size());
    return run_as_it_is(file);
  }
  int run_as_it_is(vhca::uverbs::DeviceFile& file) {
    return file.ioctl(RDMA_VERBS_IOCTL, bytes_.data());
  }

 private:
  std::vector<std::byte> bytes_;
};

inline Ioctl write_command(uint32_t command) {
  Ioctl io(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
  io.in(UVERBS_ATTR_WRITE_CMD, uint64_t{command});
  return io;
}

inline std::unique_ptr<vhca::hca::Hca> make_hca(const char* profile = "cx6dx") {
  vhca::hca::HcaConfig config;
  config.name = "vhca0";
  config.profile = *vhca::find_profile(profile);
  config.mac = {0x02, 0x4b, 0x01, 0x02, 0x03, 0x04};
  return std::move(*vhca::hca::Hca::create(std::move(config)));
}

// What mlx5 asks when it opens a device. 0 or a negative errno.
inline int get_context(vhca::uverbs::DeviceFile& file, uint32_t flags = MLX5_IB_ALLOC_UCTX_DEVX) {
  mlx5_ib_alloc_ucontext_req_v2 req{};
  req.total_num_bfregs = 16;
  req.num_low_latency_bfregs = 4;
  req.flags = flags;
  req.max_cqe_version = 1;
  req.lib_caps = MLX5_LIB_CAP_4K_UAR | MLX5_LIB_CAP_DYN_UAR;
  mlx5_ib_alloc_ucontext_resp resp{};
  uint32_t vectors = 0;
  uint64_t support = 0;
  return Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT)
      .out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, vectors)
      .out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, support)
      .in(UVERBS_ATTR_UHW_IN, req)
      .out(UVERBS_ATTR_UHW_OUT, resp)
      .run(file);
}

// An open device and the objects that most tests need; every call says 0 or a negative errno.
struct Client {
  explicit Client(const char* profile = "cx6dx") : Client(make_hca(profile)) {}
  // One more client of an adapter.
  explicit Client(std::shared_ptr<vhca::hca::Hca> of)
      : hca(std::move(of)),
        alone(hca.use_count() == 1),
        before(census(*hca)),
        file(std::make_unique<vhca::uverbs::DeviceFile>(*hca)) {
    opened = get_context(*file, hca->config.profile.devx ? MLX5_IB_ALLOC_UCTX_DEVX : 0);
  }
  // Its end ends all that it made. Of an adapter's only client nothing is left, whatever was
  // refused.
  ~Client() {
    file.reset();
    if (alone && hca.use_count() == 1 && !same_census(before, census(*hca))) std::abort();
  }
  Client(Client&&) = default;
  Client& operator=(Client&&) = delete;
  int alloc_pd(uint32_t& handle, uint32_t* pdn = nullptr) {
    uint64_t core_in = 0;  // the response's address, which this interface ignores
    ib_uverbs_alloc_pd_resp resp{};
    mlx5_ib_alloc_pd_resp driver{};
    int err = write_command(IB_USER_VERBS_CMD_ALLOC_PD)
                  .in(UVERBS_ATTR_CORE_IN, core_in)
                  .out(UVERBS_ATTR_CORE_OUT, resp)
                  .out(UVERBS_ATTR_UHW_OUT, driver)
                  .run(*file);
    handle = resp.pd_handle;
    if (pdn != nullptr) *pdn = driver.pdn;
    return err;
  }
  int destroy(uint16_t object, uint16_t method, uint16_t id, uint32_t handle) {
    return Ioctl(object, method).handle(id, handle).run(*file);
  }
  int destroy_pd(uint32_t h) {
    return destroy(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, UVERBS_ATTR_DESTROY_PD_HANDLE, h);
  }
  int destroy_mr(uint32_t h) {
    return destroy(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, UVERBS_ATTR_DESTROY_MR_HANDLE, h);
  }
  int reg_mr(uint32_t pd, const void* at, uint64_t bytes, uint32_t access,
             ib_uverbs_reg_mr_resp* resp) {
    struct {
      uint64_t response = 0, start = 0, length = 0, hca_va = 0;
      uint32_t pd_handle = 0, access_flags = 0;
    } cmd;
    static_assert(sizeof cmd == sizeof(ib_uverbs_reg_mr));
    cmd.start = cmd.hca_va = reinterpret_cast<uintptr_t>(at);
    cmd.length = bytes;
    cmd.pd_handle = pd;
    cmd.access_flags = access;
    return write_command(IB_USER_VERBS_CMD_REG_MR)
        .in(UVERBS_ATTR_CORE_IN, cmd)
        .raw(UVERBS_ATTR_CORE_OUT, sizeof *resp, reinterpret_cast<uintptr_t>(resp))
        .run(*file);
  }
  // A UAR page; its page number.
  int alloc_uar(uint32_t& page, uint64_t* offset = nullptr, uint32_t* handle = nullptr) {
    uint64_t at = 0;
    uint32_t length = 0;
    Ioctl io(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC);
    io.handle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)
        .in(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, uint64_t{1})
        .out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, at)
        .out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, length)
        .out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, page);
    int err = io.run(*file);
    if (offset != nullptr) *offset = at;
    if (handle != nullptr) *handle = static_cast<uint32_t>(io.attr(0).data);
    return err;
  }
  int comp_channel(int& fd) {
    uint64_t core_in = 0;
    ib_uverbs_create_comp_channel_resp resp{};
    int err = write_command(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL)
                  .in(UVERBS_ATTR_CORE_IN, core_in)
                  .out(UVERBS_ATTR_CORE_OUT, resp)
                  .run(*file);
    fd = static_cast<int>(resp.fd);
    return err;
  }
  int async_fd(int& fd) {
    Ioctl io(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
    io.handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
    int err = io.run(*file);
    fd = static_cast<int>(io.attr(0).data);
    return err;
  }

  std::shared_ptr<vhca::hca::Hca> hca;
  bool alone;
  Census before;
  std::unique_ptr<vhca::uverbs::DeviceFile> file;
  int opened;
};

// A write command that answers with nothing. 0 or a negative errno.
template <typename Command>
int run_command(Client& c, uint32_t number, const Command& cmd) {
  return write_command(number).in(UVERBS_ATTR_CORE_IN, cmd).run(*c.file);
}

// An event of a completion queue, as its sink hears of it when it was armed.
inline void raise_completion(vhca::hca::Hca& hca, uint32_t cqn) {
  vhca::wq::Cq* cq = hca.cqs.at(cqn);
  if (cq != nullptr) cq->sink->completion(cq->spec.owner);
}

// As above, of a queue pair.
inline void raise_async(vhca::hca::Hca& hca, uint32_t qpn, uint32_t type) {
  vhca::wq::Qp* qp = hca.qps.at(qpn);
  if (qp != nullptr) qp->sink->async(type, qp->spec.owner);
}

// The memory of a completion queue and of a queue pair, and the requests that make them.
struct Rings {
  static constexpr uint32_t cqes = 16;
  alignas(4096) uint8_t cq[cqes * 64]{};
  alignas(4096) uint8_t qp[2 * 4096]{};
  alignas(64) uint32_t cq_record[16]{};
  alignas(64) uint32_t qp_record[16]{};

  // What a queue pair needs: a domain, a page of doorbells, a completion queue.
  int begin(Client& c, uint32_t& pd, uint32_t& uar, uint32_t& cq_handle) {
    int err = c.alloc_pd(pd);
    if (err == 0) err = c.alloc_uar(uar);
    return err != 0 ? err : create_cq(c, uar, -1, 1, cq_handle);
  }
  int create_cq(Client& c, uint32_t uar, int channel, uint64_t user_handle, uint32_t& handle) {
    mlx5_ib_create_cq cmd{};
    cmd.buf_addr = reinterpret_cast<uintptr_t>(cq);
    cmd.db_addr = reinterpret_cast<uintptr_t>(cq_record);
    cmd.cqe_size = 64;
    cmd.flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX;
    cmd.uar_page_index = static_cast<uint16_t>(uar);
    mlx5_ib_create_cq_resp resp{};
    uint32_t granted = 0;
    Ioctl io(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
    io.handle(UVERBS_ATTR_CREATE_CQ_HANDLE)
        .in(UVERBS_ATTR_CREATE_CQ_CQE, cqes - 1)
        .in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, user_handle)
        .in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, uint32_t{0})
        .out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, granted)
        .in(UVERBS_ATTR_UHW_IN, cmd)
        .out(UVERBS_ATTR_UHW_OUT, resp);
    if (channel >= 0) io.handle(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, static_cast<uint64_t>(channel));
    int err = io.run(*c.file);
    handle = static_cast<uint32_t>(io.attr(0).data);
    cqn = resp.cqn;
    return err != 0 || granted == cqes - 1 ? err : -1;
  }
  int destroy_cq(Client& c, uint32_t handle, ib_uverbs_destroy_cq_resp& resp) {
    return Ioctl(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY)
        .handle(UVERBS_ATTR_DESTROY_CQ_HANDLE, handle)
        .out(UVERBS_ATTR_DESTROY_CQ_RESP, resp)
        .run(*c.file);
  }
  mlx5_ib_create_qp driver_part(uint32_t uar) {
    mlx5_ib_create_qp cmd{};
    cmd.buf_addr = reinterpret_cast<uintptr_t>(qp);
    cmd.db_addr = reinterpret_cast<uintptr_t>(qp_record);
    cmd.sq_wqe_count = 64;
    cmd.rq_wqe_count = 16;
    cmd.rq_wqe_shift = 6;
    cmd.flags = MLX5_QP_FLAG_UAR_PAGE_INDEX | MLX5_QP_FLAG_SCATTER_CQE;
    cmd.bfreg_index = uar;
    return cmd;
  }
  int create_qp(Client& c, const mlx5_ib_create_qp& cmd, uint64_t type, uint32_t pd, uint32_t cq_h,
                uint32_t& handle) {
    mlx5_ib_create_qp_resp resp{};
    ib_uverbs_qp_cap cap{16, 16, 1, 1, 0};
    Ioctl io(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
    io.handle(UVERBS_ATTR_CREATE_QP_HANDLE)
        .handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd)
        .handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq_h)
        .handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq_h)
        .in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, uint64_t{0x7700})
        .in(UVERBS_ATTR_CREATE_QP_CAP, cap)
        .in(UVERBS_ATTR_CREATE_QP_TYPE, type)
        .out(UVERBS_ATTR_CREATE_QP_RESP_CAP, cap)
        .out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qpn)
        .in(UVERBS_ATTR_UHW_IN, cmd)
        .out(UVERBS_ATTR_UHW_OUT, resp);
    int err = io.run(*c.file);
    handle = static_cast<uint32_t>(io.attr(0).data);
    return err != 0 || cap.max_recv_wr == 16 ? err : -1;
  }
  int destroy_qp(Client& c, uint32_t handle, ib_uverbs_destroy_qp_resp& resp) {
    return Ioctl(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY)
        .handle(UVERBS_ATTR_DESTROY_QP_HANDLE, handle)
        .out(UVERBS_ATTR_DESTROY_QP_RESP, resp)
        .run(*c.file);
  }
  uint32_t cqn = 0, qpn = 0;
};

}  // namespace kilim::test
