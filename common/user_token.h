// A user's token: who may ask a controller without a certificate. It comes with each call as gRPC
// metadata, `authorization: Bearer TOKEN`, over TLS only.
#ifndef COMMON_USER_TOKEN_H_
#define COMMON_USER_TOKEN_H_

#include <cstddef>

namespace paceline {

// In bytes. Shorter ones could be guessed, and are nobody's whatever a file says. 32 characters of
// base64 have 192 random bits.
inline constexpr size_t kMinUserToken = 32;
inline constexpr size_t kMaxUserToken = 512;

}  // namespace paceline

#endif  // COMMON_USER_TOKEN_H_
