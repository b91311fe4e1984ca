// Writes a token file with a header (docs/token-files.md), atomically, piece by piece.
//
// Thread-compatible.
#ifndef COMMON_TOKEN_FILE_TOKEN_FILE_WRITER_H_
#define COMMON_TOKEN_FILE_TOKEN_FILE_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/atomic_file/atomic_file.h"
#include "common/tls/key_and_request.h"
#include "common/token_file/token_file.h"

namespace paceline {

class TokenFileWriter {
 public:
  // All tokens must be less than `vocab_size`. InvalidArgument when `type` cannot hold them;
  // otherwise, here and below, errors as for AtomicFile.
  static absl::StatusOr<TokenFileWriter> Create(const std::string& path, TokenType type,
                                                int64_t vocab_size);

  // InvalidArgument for a token outside the vocabulary.
  absl::Status Append(absl::Span<const uint32_t> tokens);

  int64_t size() const { return size_; }  // Tokens appended.

  // Puts the complete file in place; without this call there is no file. InvalidArgument when it
  // has no tokens. Call nothing after it.
  absl::Status Finish();

 private:
  TokenFileWriter(AtomicFile file, TokenType type, int64_t vocab_size);

  absl::Status Flush();

  AtomicFile file_;
  TokenType type_;
  int64_t vocab_size_;
  int64_t size_ = 0;
  std::string buffer_;  // Not yet in the file.
  Sha256 sha256_;       // Of the tokens in the file.
};

}  // namespace paceline

#endif  // COMMON_TOKEN_FILE_TOKEN_FILE_WRITER_H_
