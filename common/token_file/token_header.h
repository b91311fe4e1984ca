// The first 64 bytes of a token file (docs/token-files.md).
#ifndef COMMON_TOKEN_FILE_TOKEN_HEADER_H_
#define COMMON_TOKEN_FILE_TOKEN_HEADER_H_

#include <cstdint>

namespace paceline::token_header {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "token files are little-endian");

constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t token_bytes;
  uint64_t count;
  uint64_t vocab_size;
  uint64_t tokens_offset;
  uint8_t hash[24];  // The first bytes of the SHA-256 of all tokens; all 0: not known.
};
static_assert(sizeof(Header) == 64, "the layout is the file's");

}  // namespace paceline::token_header

#endif  // COMMON_TOKEN_FILE_TOKEN_HEADER_H_
