// SPDX-License-Identifier: BSD-3-Clause
// AES-XTS by OpenSSL's libcrypto, unit by unit: what the adapter's is compared with. Pure values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <openssl/evp.h>

namespace kilim::test {

struct XtsReference {
  std::vector<uint8_t> keys;  // both, 32 or 64 bytes
  std::vector<uint8_t> number = std::vector<uint8_t>(16);
  std::size_t unit = 512;

  [[nodiscard]] std::vector<uint8_t> run(std::vector<uint8_t> data, bool encrypt) const {
    std::vector<uint8_t> n = number;
    for (std::size_t at = 0; at < data.size(); at += unit) {
      const std::size_t bytes = std::min(unit, data.size() - at);
      one(data.data() + at, bytes, n.data(), encrypt);
      for (std::size_t i = 0; i < n.size() && ++n[i] == 0; i++) {
      }
    }
    return data;
  }

 private:
  void one(uint8_t* data, std::size_t bytes, const uint8_t* iv, bool encrypt) const {
    EVP_CIPHER_CTX* c = EVP_CIPHER_CTX_new();
    int n = 0;
    EVP_CipherInit_ex(c, keys.size() == 32 ? EVP_aes_128_xts() : EVP_aes_256_xts(), nullptr,
                      keys.data(), iv, encrypt ? 1 : 0);
    if (EVP_CipherUpdate(c, data, &n, data, static_cast<int>(bytes)) != 1 ||
        n != static_cast<int>(bytes))
      std::fill_n(data, bytes, uint8_t{0});
    EVP_CIPHER_CTX_free(c);
  }
};

}  // namespace kilim::test
