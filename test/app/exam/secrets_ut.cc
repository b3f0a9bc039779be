// SPDX-License-Identifier: BSD-3-Clause
// What names a machine is taken out of a report in each form that it may stand in.
#include <cstdint>
#include <string>
#include <vector>

#include "secrets.hh"
#include "ut.hh"

using namespace kilim::exam;

namespace secrets_ut {
namespace {

const std::vector<uint8_t> mac{0x0c, 0x42, 0xa1, 0x9f, 0x3e, 0x77};
const std::vector<uint8_t> gid{0xfe, 0x80, 0,    0,    0,    0,    0,    0,
                               0x0e, 0x42, 0xa1, 0xff, 0xfe, 0x9f, 0x3e, 0x77};
const std::vector<uint8_t> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 51, 100, 7};

std::string without(const char* kind, const std::vector<uint8_t>& bytes, const char* text) {
  Secrets s;
  s.add({kind, bytes});
  return s.without(text);
}

void a_mac_is_replaced_in_words() {
  EQUAL(without("mac", mac, "from 0c:42:a1:9f:3e:77 on"), "from 02:00:00:00:00:01 on");
  EQUAL(without("mac", mac, "0C-42-A1-9F-3E-77"), "02-00-00-00-00-01");
  EQUAL(without("mac", mac, "0c42.a19f.3e77"), "0200.0000.0001");
}

void a_mac_is_replaced_inside_a_dumped_request() {
  EQUAL(without("mac", mac, "0000120c42a19f3e77ffff"), "000012020000000001ffff");
  EQUAL(without("mac", mac, "0000120c 42a19f3e 77ffff"), "00001202 00000000 01ffff");
  EQUAL(without("mac", mac, "0c42a19f3e770c42a19f3e77"), "020000000001020000000001");
}

void the_identifier_made_of_a_mac_goes_with_it() {
  EQUAL(without("mac", mac, "0e42a1fffe9f3e77"), "0000000000000001");
}

void a_gid_is_replaced_in_each_form() {
  EQUAL(without("gid", gid, "fe80000000000000 0e42a1fffe9f3e77"),
        "fe80000000000000 0000000000000001");
  EQUAL(without("gid", gid, "fe80:0000:0000:0000:0e42:a1ff:fe9f:3e77"),
        "fe80:0000:0000:0000:0000:0000:0000:0001");
  EQUAL(without("gid", gid, "at fe80::e42:a1ff:fe9f:3e77"), "at fe80::1");
  EQUAL(without("gid", gid, "xx0e42a1fffe9f3e77"), "xx0000000000000001");
}

void an_address_of_ipv4_is_replaced_in_each_form() {
  EQUAL(without("gid", mapped, "198.51.100.7"), "192.0.2.1");
  EQUAL(without("gid", mapped, "00000000000000000000ffffc6336407"),
        "fe800000000000000000000000000001");
  EQUAL(without("gid", mapped, "ffffc6336407"), "ffffc0000201");
}

void a_serial_number_is_replaced_as_text_and_as_bytes() {
  const std::vector<uint8_t> serial{'M', 'T', '2', '1', '0', '7', 'X', '0'};
  EQUAL(without("text", serial, "SN MT2107X0."), "SN text-1.");
  EQUAL(without("text", serial, "4d5432313037583000"), "787878787878787800");
}

void a_guid_of_zeros_names_nothing() {
  EQUAL(without("guid", std::vector<uint8_t>(8), "0000000000000000"), "0000000000000000");
}

void what_is_no_secret_stays() {
  const char* dump = "0c42a19f3e78 fe80000000000000 0c:42:a1:9f:3e";
  EQUAL(without("mac", mac, dump), dump);
}

void two_secrets_stay_two() {
  Secrets s;
  std::vector<uint8_t> other = mac;
  other[5] = 0x78;
  s.add({"mac", mac});
  s.add({"mac", other});
  s.add({"mac", mac});
  EQUAL(s.without("0c42a19f3e77 0c42a19f3e78"), "020000000001 020000000002");
}

constexpr kilim::test::Case cases[] = {
    {"a MAC is replaced in words", a_mac_is_replaced_in_words},
    {"a MAC is replaced inside a dumped request", a_mac_is_replaced_inside_a_dumped_request},
    {"the identifier made of a MAC goes with it", the_identifier_made_of_a_mac_goes_with_it},
    {"a GID is replaced in each form", a_gid_is_replaced_in_each_form},
    {"an address of IPv4 is replaced in each form", an_address_of_ipv4_is_replaced_in_each_form},
    {"a serial number is replaced as text and as bytes",
     a_serial_number_is_replaced_as_text_and_as_bytes},
    {"a GUID of zeros names nothing", a_guid_of_zeros_names_nothing},
    {"what is no secret stays", what_is_no_secret_stays},
    {"two secrets stay two", two_secrets_stay_two},
};

}  // namespace
}  // namespace secrets_ut

KILIM_TEST_SUITE(secrets, secrets_ut::cases)
