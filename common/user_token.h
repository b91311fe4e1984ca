// A user's token: authenticates a caller without a certificate. Each call carries it as gRPC
// metadata, `authorization: Bearer TOKEN`, over TLS only.
#ifndef COMMON_USER_TOKEN_H_
#define COMMON_USER_TOKEN_H_

#include <cstddef>

namespace paceline {

// In bytes. Shorter tokens could be guessed and are rejected, even if a file lists them. 32
// characters of base64 have 192 random bits.
inline constexpr size_t kMinUserToken = 32;
inline constexpr size_t kMaxUserToken = 512;

}  // namespace paceline

#endif  // COMMON_USER_TOKEN_H_
