// SPDX-License-Identifier: BSD-3-Clause
// Any bytes in send and receive queues: decode, UMR, RDMA, atomics, raw frames, copies; rings,
// doorbell records and keys that change under the engine. The first byte names the kind of queue,
// whether the second one matches tags, and whether the order is weak.
#include <string>
#include <vector>

#include "fake_clock_fixture.hh"
#include "kilim/prm/av_seg.hh"
#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/tag_matching.hh"
#include "vhca/core/address.hh"
#include "wqe_fixture.hh"

namespace kilim::fuzz {

using namespace vhca;
using prm::Opcode;
using vhca::test::klm;
using vhca::test::repeat_entry;
using vhca::test::repeat_head;
using vhca::test::umr_wqe;
using vhca::test::Wqe;

namespace {

RigShape shape_of(uint8_t first) {
  RigShape s;
  s.order = vhca::test::order_of((first & weak) != 0 ? "weak" : "strict");
  s.connect = false;
  s.wire = "cable:fuzz";
  s.cq_entries = (first & 4) != 0 ? 16 : 256;
  s.cqe_bytes = (first & 8) != 0 ? 128 : 64;
  s.a.type = s.b.type = kinds[first & 3];
  if ((first & dynamic) != 0) s.a.type = QpType::dci, s.b.type = QpType::dct;
  s.a.sq_wqebbs = (first & 16) != 0 ? 16 : 64;
  s.profile.umr_fence = 0;
  s.profile.log_max_tags = 4;
  if ((first & 32) != 0 && s.a.type == QpType::rc) s.b.tags = 16;
  return s;
}

Script send_seed() {
  Script s = begin(QpType::rc);
  receive(s, 1, there, 4096, region);
  receive(s, 1, there, 64, region);
  std::array<std::byte, 24> bytes{};
  post(s, 0, Wqe(Opcode::send_imm, 7).data(here, 1000, region));
  post(s, 0, Wqe(Opcode::send).inlined(bytes));
  post(s, 0, Wqe(Opcode::rdma_write_imm, 9).raddr(there, region).inlined(bytes));
  post(s, 0, Wqe(Opcode::send_inval, key_token | 8).data(here, 8, region));
  return work(s);
}

Script atomic_seed() {
  Script s = begin(QpType::rc);
  post(s, 0, Wqe(Opcode::atomic_fa).raddr(here, region).atomic(5, 0).data(there, 8, region));
  post(s, 0, Wqe(Opcode::atomic_cs).raddr(here, region).atomic(5, 6).data(there, 8, region));
  post(s, 0, Wqe(Opcode::local_inval, list));
  return work(s);
}

Script mmo_seed() {
  Script s = begin(QpType::rc);
  std::array<std::byte, 16> meta{};
  prm::DataSeg from{be32{512}, be32{region}, be64{here}};
  prm::DataSeg to{be32{512}, be32{region}, be64{there}};
  Wqe w(Opcode::mmo);
  w.bytes[0] = std::byte{1};  // the operation: a copy
  w.raw(meta.data(), meta.size()).raw(&from, sizeof(from)).raw(&to, sizeof(to));
  post(s, 0, w);
  return work(s);
}

Script raw_seed() {
  Script s = begin(QpType::raw_packet);
  std::array<std::byte, 16> eth{};
  post(s, 0, Wqe(Opcode::send).raw(eth.data(), eth.size()).data(here, 64, region));
  post(s, 0, Wqe(Opcode::nop));
  return work(s);
}

Script datagram_seed() {
  Script s = begin(QpType::ud);
  prm::AvSeg av{};
  av.qkey = be32{0x1111};
  av.dqp = be32{queue_token | 1};
  Gid own;
  port_gid(vhca::test::test_mac, 0, own);
  std::memcpy(av.rgid, own.data(), own.size());
  av.grh_gid_fl = be32{1u << 30};
  receive(s, 1, there, 4096, region);
  post(s, 0, Wqe(Opcode::send).raw(&av, sizeof(av)).data(here, 100, region));
  return work(s);
}

// The first receive leads to the second.
Script tag_seed() {
  Script s;
  s.put(uint8_t{32});
  std::array<std::byte, 64> receive{};
  receive[3] = std::byte{1};
  prm::DataSeg data{be32{4096}, be32{region}, be64{there}};
  std::memcpy(receive.data() + 16, &data, sizeof(data));
  s.put(static_cast<uint8_t>(Step::recv), uint8_t{1});
  s.bytes(receive);
  prm::TagSeg seg{0x10, 0xc0, be16{1}, {}, be16{0}, {}, be64{5}, be64{0xff}};
  post(s, 1, Wqe(Opcode::tag_matching).raw(&seg, sizeof(seg)).data(there, 4096, region).quiet());
  seg.index = be16{2};
  post(s, 1, Wqe(Opcode::tag_matching).raw(&seg, sizeof(seg)).data(there, 4096, region).quiet());
  step(s, Step::ring, 1);
  step(s, Step::run, 200);
  struct {
    prm::Tmh tmh;
    prm::Rvh rvh;
  } head{{3, {}, be32{1}, be64{5}}, {be64{there}, be32{region}, be32{4000}}};
  for (prm::TmhOp op : {prm::TmhOp::eager, prm::TmhOp::rendezvous, prm::TmhOp::no_tag}) {
    head.tmh.opcode = static_cast<uint8_t>(op);
    post(s, 0, Wqe(Opcode::send).inlined(std::as_bytes(std::span(&head, 1))));
  }
  work(s);
  seg.opcode = 0x20;
  post(s, 1, Wqe(Opcode::tag_matching).raw(&seg, sizeof(seg)).quiet());
  step(s, Step::ring, 1);
  return work(s);
}

// The beginning of a request to the target on the same adapter.
Wqe to_target(Opcode op, uint32_t imm = 0, uint64_t key = Rig::dc_key) {
  prm::AvSeg av{};
  av.qkey = be32{static_cast<uint32_t>(key >> 32)};
  av.reserved = be32{static_cast<uint32_t>(key)};
  av.dqp = be32{queue_token | 1};
  Gid own;
  port_gid(vhca::test::test_mac, 0, own);
  std::memcpy(av.rgid, own.data(), own.size());
  return Wqe(op, imm).raw(&av, sizeof(av));
}

Script dynamic_seed() {
  Script s;
  s.put(dynamic);
  prm::SrqNextSeg link{};
  link.next_wqe_index = be16{1};
  prm::DataSeg data{be32{4096}, be32{region}, be64{there}};
  std::array<std::byte, 64> wqe{};
  std::memcpy(wqe.data(), &link, sizeof(link));
  std::memcpy(wqe.data() + sizeof(link), &data, sizeof(data));
  s.put(static_cast<uint8_t>(Step::recv), uint8_t{1});
  s.bytes(wqe);
  post(s, 0, to_target(Opcode::send_imm, 7).data(here, 1000, region));
  post(s, 0, to_target(Opcode::rdma_write).raddr(there, region).data(here, 300, region));
  post(s, 0, to_target(Opcode::rdma_read).raddr(there, region).data(here, 300, region));
  post(s, 0, to_target(Opcode::atomic_fa).raddr(there, region).atomic(5, 0).data(here, 8, region));
  Wqe stray = to_target(Opcode::rdma_write);
  stray.bytes[10] = std::byte{3};  // a stream that fails
  post(s, 0, stray.raddr(there, 0x1234).data(here, 300, region));
  post(s, 0, to_target(Opcode::send, 0, 5).data(here, 10, region));
  return work(s);
}

Script odd_seed() {
  Script s = begin(QpType::rc);
  for (uint8_t what = 0; what < 7; what++) {
    post(s, 0, Wqe(Opcode::rdma_write).raddr(there, region).data(here, 4096, region));
    s.put(static_cast<uint8_t>(Step::odd), what, uint32_t{0x10});
    work(s);
  }
  s.put(static_cast<uint8_t>(Step::time), uint16_t{500});
  step(s, Step::modify, 0).put(uint8_t{6});
  return work(s);
}

}  // namespace

std::vector<Seed> seeds() {
  std::vector<Seed> all = {{"a list", list_seed()},
                           {"signed blocks", signed_seed()},
                           {"lists of themselves", nested_seed()},
                           {"strided", strided_seed()},
                           {"sends", send_seed()},
                           {"atomics", atomic_seed()},
                           {"copies by the adapter", mmo_seed()},
                           {"raw frames", raw_seed()},
                           {"datagrams", datagram_seed()},
                           {"dynamic connections", dynamic_seed()},
                           {"tags", tag_seed()},
                           {"odd steps", odd_seed()}};
  static std::vector<std::string> names;
  names.clear();
  for (const Seed& s : all) names.push_back(std::string(s.name) + ", late");
  for (std::size_t i = 0; i < names.size(); i++) {
    Seed late = all[i];
    late.name = names[i].c_str();
    late.script.out[0] |= weak;
    all.push_back(late);
  }
  return all;
}

void run_input(Input in) {
  Machine m(shape_of(in.take<uint8_t>()));
  m.bring_up();
  for (int n = 0; n < 256 && !in.done(); n++)
    m.step(static_cast<Step>(in.take<uint8_t>() % steps), in);
  m.finish();
}

}  // namespace kilim::fuzz
