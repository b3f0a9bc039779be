// SPDX-License-Identifier: BSD-3-Clause
// Seeds of the harness of WQEs that change keys by UMR: a list, keys of keys, strides, signed
// blocks.
#include "kilim/prm/bsf_seg.hh"
#include "wqe_fixture.hh"

namespace kilim::fuzz {

using vhca::test::klm;
using vhca::test::repeat_entry;
using vhca::test::repeat_head;
using vhca::test::umr_wqe;

Script list_seed() {
  Script s = begin(QpType::rc);
  std::array two{klm(here, 64, region), klm(there, 192, region)};
  UmrShape shape;
  shape.len = 256;
  post(s, 0, umr_wqe(list, shape, two));
  post(s, 0, Wqe(Opcode::rdma_write).raddr(there, region).data(0, 256, list));
  post(s, 0, Wqe(Opcode::rdma_read).raddr(0, list).data(here, 200, region));
  return work(s);
}

Script nested_seed() {
  Script s = begin(QpType::rc);
  UmrShape shape;
  shape.len = 512;
  std::array self{klm(0, 256, list), klm(0, 256, list)};
  std::array mutual{klm(0, 512, other_list)};
  std::array back{klm(0, 512, list)};
  post(s, 0, umr_wqe(list, shape, self));
  post(s, 0, Wqe(Opcode::rdma_write).raddr(there, region).data(0, 512, list));
  step(s, Step::modify, 0).put(uint8_t{7});
  post(s, 0, umr_wqe(other_list, shape, back));
  post(s, 0, umr_wqe(list, shape, mutual));
  post(s, 0, Wqe(Opcode::rdma_read).raddr(0, list).data(here, 512, region));
  return work(s);
}

Script strided_seed() {
  Script s = begin(QpType::rc);
  std::array rows{repeat_head(96, 8, 2), repeat_entry(512, 64, region, here),
                  repeat_entry(512, 32, region, there)};
  UmrShape shape;
  shape.len = 96 * 8;
  post(s, 0, umr_wqe(key_token | 5, shape, rows));
  post(s, 0, Wqe(Opcode::rdma_write).raddr(there, region).data(0, 700, key_token | 5));
  return work(s);
}

// A key whose blocks are signed. The PSV's number follows from the rig's seed.
Script signed_seed() {
  tpt::KeyTable probe{1, 16};
  uint32_t psv = 0;
  probe.psvs().create(psv);
  prm::Bsf b{};
  b.size_sbs = prm::bsf::size_with_inline;
  b.check_mask = 0xff;
  b.mem_block = prm::bsf::block_512;
  b.raw_data_size = be32{prm::bsf::any_raw_size};
  b.mem_format = be32{uint32_t{prm::bsf::crc32c | prm::bsf::repeat} << 24 | psv};
  b.wire_block = prm::bsf::block_520;
  b.wire_format = be32{psv};
  b.wire.valid_refresh = be16{prm::bsf::valid};
  b.wire.guard_type = prm::bsf::guard_crc;
  b.wire.repeat_seed = prm::bsf::repeat_block;
  Script s = begin(QpType::rc);
  std::array two{klm(here, 700, region), klm(there, 348, region)};
  UmrShape shape;
  shape.len = 1048;
  shape.mask |= prm::umr::mask_bsf_enable | prm::umr::mask_sig_err;
  shape.offset = prm::bsf::octowords;
  Wqe umr = umr_wqe(key_token | 10, shape, two);
  const be32 on{prm::mkey::bsf_enable};
  std::memcpy(umr.bytes.data() + 64 + 12, &on, sizeof(on));
  post(s, 0, umr.raw(&b, sizeof(b)));
  prm::SetPsvSeg seg{};
  seg.psv = be32{psv};
  post(s, 0, Wqe(Opcode::set_psv).raw(&seg, sizeof(seg)));
  post(s, 0, Wqe(Opcode::rdma_write).raddr(there, region).data(0, 1030, key_token | 10));
  post(s, 0, Wqe(Opcode::rdma_read).raddr(there, region).data(3, 524, key_token | 10));
  return work(s);
}

}  // namespace kilim::fuzz
