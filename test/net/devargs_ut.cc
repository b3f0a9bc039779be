// SPDX-License-Identifier: BSD-3-Clause
// The devargs of net_kilim: what is taken, and that each refusal names the argument and its range.
#include <string>

#include "net/kilim/devargs.hh"
#include "ut.hh"

namespace devargs_ut {
namespace {

using namespace kilim::net;
using kilim::Progress;

void all_given() {
  auto r = parse_devargs(
      "hca=vhca3,port=2,rxq=1,txq=4,rxd=64,txd=8192,wire=pcap:in:out,progress=thread,fault=fatal@9,"
      "lint=warn,order=weak:7");
  auto* d = std::get_if<Devargs>(&r);
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  EQUAL(d->hca.name, "vhca3");
  CU_ASSERT_TRUE(d->hca.wires == std::vector<std::string>{"pcap:in:out"});
  EQUAL(d->hca.progress, Progress::thread);
  EQUAL(d->hca.lint, "warn");
  EQUAL(d->hca.fatal_at, 9);
  EQUAL(d->hca.order, "weak:7");
  EQUAL(d->port, 2);
  EQUAL(d->rxq, 1);
  EQUAL(d->txq, 4);
  EQUAL(d->rxd, 64);
  EQUAL(d->txd, 8192);
}

// Words of the device are checked here, before there is one; a fault of each kind and several
// addresses may be said.
void faults() {
  auto r = parse_devargs("fault=wqe@7+100");
  auto* d = std::get_if<Devargs>(&r);
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  EQUAL(d->hca.failing, "wqe@7+100");
  EQUAL(d->hca.fatal_at, 0);
}

void words_of_the_device() {
  auto r =
      parse_devargs("profile=vf,seed=5,ip=10.0.0.1/24,ip=fd00::1/64,fault=wqe@7,fault=fatal@9");
  auto* d = std::get_if<Devargs>(&r);
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  EQUAL(d->hca.profile, "vf");
  EQUAL(d->hca.seed, 5);
  EQUAL(d->hca.ips.size(), 2);
  EQUAL(d->hca.failing, "wqe@7");
  EQUAL(d->hca.fatal_at, 9);
}

void defaults() {
  for (const char* text : {static_cast<const char*>(nullptr), ""}) {
    auto r = parse_devargs(text);
    auto* d = std::get_if<Devargs>(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(d);
    CU_ASSERT_TRUE(d->hca.name.empty());
    CU_ASSERT_TRUE(d->hca.wires.empty());
    EQUAL(d->port, 1);
    EQUAL(d->rxq, 1);
    EQUAL(d->txq, 1);
    EQUAL(d->rxd, 1024);
    EQUAL(d->txd, 1024);
    EQUAL(d->hca.progress, Progress::poller);
  }
}

// Signatures of processors: Haswell, Broadwell-EP, Skylake-SP, and one of another family.
void processors() {
  EQUAL(loses_by_relaxed_ordering(0x306f2), true);
  EQUAL(loses_by_relaxed_ordering(0x406f1), true);
  EQUAL(loses_by_relaxed_ordering(0x50654), false);
  EQUAL(loses_by_relaxed_ordering(0x30ff2), false);
  auto given = parse_devargs("relaxed_ordering_en=0");
  CU_ASSERT_PTR_NOT_NULL_FATAL(std::get_if<Devargs>(&given));
  EQUAL(std::get_if<Devargs>(&given)->relaxed_ordering, 0);
  auto usual = parse_devargs("");
  EQUAL(std::get_if<Devargs>(&usual)->relaxed_ordering, usual_relaxed_ordering());
}

struct Refused {
  const char* text;
  const char* names;  // the argument
  const char* range;
};

// clang-format off
constexpr Refused refused[] = {
    {"mprq_en=2",            "mprq_en=2",       "0 or 1"},
    {"mprq_en=1,rxq_cqe_comp_en=1", "mprq_en=1", "excludes rxq_cqe_comp_en=1"},
    {"mprq_log_stride_num=17", "mprq_log_stride_num=17", "1 to 16"},
    {"mprq_log_stride_size=14", "mprq_log_stride_size=14", "6 to 13"},
    {"mprq_max_memcpy_len=65536", "mprq_max_memcpy_len=65536", "0 to 65535"},
    {"lro_timeout_usec=65536", "lro_timeout_usec=65536", "0 to 65535"},
    {"rxqs_min_mprq=0",      "rxqs_min_mprq=0", "1 to 64"},
    {"txq_inline_max=975",   "txq_inline_max=975", "0 to 974"},
    {"txqs_min_inline=65",   "txqs_min_inline=65", "0 to 64"},
    {"txq_inline_mpw=100",   "txq_inline_mpw=100", "must be 0"},
    {"rxq_cqe_comp_en=2",    "rxq_cqe_comp_en=2", "0 or 1"},
    {"bogus=1",              "bogus",           "known are hca= port= rxq= txq= rxd= txd= relaxed_ordering_en= rxq_cqe_comp_en= txq_mpw_en= txq_inline_min= txq_inline_max= txqs_min_inline= txq_inline_mpw= mprq_en= rxqs_min_mprq= mprq_log_stride_num= mprq_log_stride_size= mprq_max_memcpy_len= lro_timeout_usec= inline_recv= wire= netdev= progress= fault= lint= explain= order= profile= mac= gid= ip= seed= journal="},
    {"hca=vhca0,speed=fast", "speed",           "known are"},
    {"port=0",               "port=0",          "1 to 255"},
    {"port=256",             "port=256",        "1 to 255"},
    {"relaxed_ordering_en=2", "relaxed_ordering_en=2", "0 or 1"},
    {"rxq=65",               "rxq=65",          "1 to 64"},
    {"rxq=0",                "rxq=0",           "1 to 64"},
    {"txq=65",               "txq=65",          "1 to 64"},
    {"txq=-1",               "txq=-1",          "1 to 64"},
    {"txq=1x",               "txq=1x",          "1 to 64"},
    {"txq=99999999999999",   "txq=99999999999999", "1 to 64"},
    {"rxd=63",               "rxd=63",          "64 to 8192, a power of two"},
    {"rxd=100",              "rxd=100",         "64 to 8192, a power of two"},
    {"txd=16384",            "txd=16384",       "64 to 8192, a power of two"},
    {"txd=",                 "txd=",            "64 to 8192, a power of two"},
    {"txd",                  "txd=",            "64 to 8192, a power of two"},
    {"hca=",                 "hca=",            "vhcaN"},
    {"hca=a23456789012345678901234567890123", "hca=", "1 to 32 characters"},
    {"wire=",                "wire=",           "pcap:IN[:OUT]"},
    {"progress=fast",        "progress=fast",   "poll or thread"},
    {"progress=",            "progress=",       "poll or thread"},
    {"fault=fatal@0",        "fault=fatal@0",   "from 1"},
    {"fault=drop@1",         "fault=drop@1",    "fatal@N"},
    {"fault=wqe@0",          "fault=wqe@0",     "wqe@N+M"},
    {"fault=wqe@3+",         "fault=wqe@3+",    "wqe@N+M"},
    {"lint=yes",             "lint=yes",        "off, warn or error"},
    {"lint=warn,lint=warn",  "lint",            "twice"},
    {"order=later",          "order=later",     "late-umr"},
    {"profile=cx9",          "profile=cx9",     "cx6dx, vf"},
    {"wire=unik:/tmp/a",      "wire=unik:/tmp/a", "is 'unix:' meant?"},
    {"order=",               "order=",          "strict, weak, late-umr"},
    {"inline_recv=32",       "inline_recv=32",  "no inline receive on a packet queue"},
    {"inline_recv=0",        "inline_recv=0",   "no inline receive on a packet queue"},
    {"rxd=64,rxd=128",       "rxd",             "twice"},
};
// clang-format on

void refusals() {
  for (const Refused& row : refused) {
    auto r = parse_devargs(row.text);
    auto* no = std::get_if<DevargsError>(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(no);
    const bool named = no->why.find(row.names) != std::string::npos;
    const bool ranged = no->why.find(row.range) != std::string::npos;
    if (!named || !ranged) std::printf("%s: %s\n", row.text, no->why.c_str());
    CU_ASSERT_TRUE(named);
    CU_ASSERT_TRUE(ranged);
    EQUAL(no->why.find('\n'), std::string::npos);
  }
}

void virtual_names() {
  for (const char* yes : {"vhca0", "vhca12"}) CU_ASSERT_TRUE(kilim::attach::is_virtual_name(yes));
  for (const char* no : {"vhca", "mlx5_0", "vhca0x", "xvhca0", ""})
    CU_ASSERT_FALSE(kilim::attach::is_virtual_name(no));
}

const kilim::test::Case cases[] = {
    {"every argument is taken", all_given},
    {"a fault may be of send requests", faults},
    {"a port's device has all words of devices", words_of_the_device},
    {"without arguments there are defaults", defaults},
    {"relaxed ordering is usual, but on some processors", processors},
    {"a refusal names the argument and its range", refusals},
    {"vhca and a number is a virtual device", virtual_names},
};

}  // namespace
}  // namespace devargs_ut

KILIM_TEST_SUITE(devargs, devargs_ut::cases)
