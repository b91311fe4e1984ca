// The tokens of a text in one file that is mapped, never parsed.
//
// The format is described in docs/token-files.md: a header and the tokens as unsigned numbers of
// 2 or 4 bytes, or these numbers alone. What the header says is checked against the file's size
// when it is opened, the tokens against the vocabulary when they are read.
#ifndef COMMON_TOKEN_FILE_TOKEN_FILE_H_
#define COMMON_TOKEN_FILE_TOKEN_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/mapped_file/mapped_file.h"

namespace paceline {

// By the bytes of a token.
enum class TokenType { kUint16 = 2, kUint32 = 4 };

constexpr int TokenBytes(TokenType type) { return static_cast<int>(type); }
constexpr const char* TokenTypeName(TokenType type) {
  return type == TokenType::kUint16 ? "uint16" : "uint32";
}
// As many different tokens as there can be.
constexpr int64_t MaxVocabSize(TokenType type) { return int64_t{1} << (8 * TokenBytes(type)); }

// The first bytes of a file with a header.
constexpr absl::string_view kTokenFileMagic = "PCLTOKEN";

// A mapped file. Thread-safe: it never changes.
class TokenFile {
 public:
  // Opens a file with a header. NotFound when it is missing; FailedPrecondition when a newer
  // version wrote it; DataLoss, with the offset of what is wrong, when it is damaged.
  static absl::StatusOr<TokenFile> Open(const std::string& path);

  // Opens a file that holds tokens of `type` alone. Errors as Open.
  static absl::StatusOr<TokenFile> OpenHeaderless(const std::string& path, TokenType type);

  const std::string& path() const { return file_.path(); }
  TokenType type() const { return type_; }
  // Number of tokens, at least 1.
  int64_t size() const { return size_; }
  // Every token is less; 0: not known (no header).
  int64_t vocab_size() const { return vocab_size_; }

  // DataLoss when the file has become too short: to be asked before Read, which would end the
  // process.
  absl::Status CheckSize() const { return file_.CheckSize(); }

  // Copies the tokens first .. first+count-1 to `tokens`; returns the largest of them. DataLoss,
  // with the offset, for one that is not in the vocabulary. Requires: they lie in the file, and
  // count >= 1.
  absl::StatusOr<int64_t> Read(int64_t first, int64_t count, int64_t* tokens) const;

  // Where this token begins in the file, in bytes.
  uint64_t OffsetOf(int64_t index) const {
    return offset_ + static_cast<uint64_t>(index * TokenBytes(type_));
  }

 private:
  TokenFile(MappedFile file, TokenType type, int64_t size, uint64_t offset, int64_t vocab_size)
      : file_(std::move(file)),
        type_(type),
        size_(size),
        offset_(offset),
        vocab_size_(vocab_size) {}

  absl::Status OutsideVocabulary(int64_t first, const int64_t* tokens, int64_t count) const;

  MappedFile file_;
  TokenType type_;
  int64_t size_;
  uint64_t offset_;  // Of the first token.
  int64_t vocab_size_;
};

}  // namespace paceline

#endif  // COMMON_TOKEN_FILE_TOKEN_FILE_H_
