// The tokens of a text in one file, which is mapped, or read in ranges, and never parsed.
//
// docs/token-files.md describes the format: a header and the tokens as unsigned numbers of 2 or 4
// bytes, or just these numbers. Opening checks the header against the file's size; reading checks
// the tokens against the vocabulary.
#ifndef COMMON_TOKEN_FILE_TOKEN_FILE_H_
#define COMMON_TOKEN_FILE_TOKEN_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/mapped_file/mapped_file.h"
#include "common/mapped_file/range_source.h"

namespace paceline {

// The values are bytes per token.
enum class TokenType { kUint16 = 2, kUint32 = 4 };

constexpr int TokenBytes(TokenType type) { return static_cast<int>(type); }
constexpr const char* TokenTypeName(TokenType type) {
  return type == TokenType::kUint16 ? "uint16" : "uint32";
}
// The number of different tokens that are possible.
constexpr int64_t MaxVocabSize(TokenType type) { return int64_t{1} << (8 * TokenBytes(type)); }

// The first bytes of a file with a header.
constexpr absl::string_view kTokenFileMagic = "PCLTOKEN";

// Thread-safe: immutable.
class TokenFile {
 public:
  // Opens a file with a header. NotFound when it is missing; FailedPrecondition when a newer
  // version wrote it; DataLoss, with the offset of the problem, when it is damaged.
  static absl::StatusOr<TokenFile> Open(const std::string& path);

  // Opens a file that only has tokens of `type`. Errors as for Open.
  static absl::StatusOr<TokenFile> OpenHeaderless(const std::string& path, TokenType type);

  // The same of a file that is read in ranges. Errors of the source, too.
  static absl::StatusOr<TokenFile> Open(std::shared_ptr<const RangeSource> source);
  static absl::StatusOr<TokenFile> OpenHeaderless(std::shared_ptr<const RangeSource> source,
                                                  TokenType type);

  const std::string& path() const { return file_.has_value() ? file_->path() : source_->name(); }
  // Whether tokens are read in ranges, for which Expect may be called.
  bool is_remote() const { return source_ != nullptr; }
  TokenType type() const { return type_; }
  // Number of tokens, at least 1.
  int64_t size() const { return size_; }
  // All tokens are less than this; 0: unknown (no header).
  int64_t vocab_size() const { return vocab_size_; }

  // Of the tokens, as the header says: the first 48 hexadecimal digits of their SHA-256. Empty: not
  // known. Nobody has compared them.
  const std::string& hash() const { return hash_; }

  // DataLoss when the file has become too short. Check this before Read, which would crash.
  absl::Status CheckSize() const {
    return file_.has_value() ? file_->CheckSize() : absl::OkStatus();
  }

  // Copies the tokens first .. first+count-1 to `tokens`; returns the largest. DataLoss, with the
  // offset, for a token outside the vocabulary; errors of the source. Requires: they are in the
  // file, and count >= 1.
  absl::StatusOr<int64_t> Read(int64_t first, int64_t count, int64_t* tokens) const;

  // RangeSource::Expect of these tokens. Requires: is_remote().
  bool Expect(int64_t first, int64_t count) const {
    return source_->Expect(OffsetOf(first), static_cast<size_t>(count * TokenBytes(type_)));
  }

  // Offset of this token in the file, in bytes.
  uint64_t OffsetOf(int64_t index) const {
    return offset_ + static_cast<uint64_t>(index * TokenBytes(type_));
  }

 private:
  TokenFile(TokenType type, int64_t size, uint64_t offset, int64_t vocab_size)
      : type_(type), size_(size), offset_(offset), vocab_size_(vocab_size) {}

  // By the bytes of a header, of a file of `size` bytes; it has neither file_ nor source_ yet.
  static absl::StatusOr<TokenFile> OfHeader(const char* bytes, const std::string& path,
                                            uint64_t size);
  // As Read, of tokens that lie at `bytes`.
  absl::StatusOr<int64_t> ReadFrom(const char* bytes, int64_t first, int64_t count,
                                   int64_t* tokens) const;
  absl::Status OutsideVocabulary(int64_t first, const int64_t* tokens, int64_t count) const;

  std::optional<MappedFile> file_;
  std::shared_ptr<const RangeSource> source_;  // In the place of file_; its caches are shared.
  TokenType type_;
  int64_t size_;
  uint64_t offset_;  // Of the first token.
  int64_t vocab_size_;
  std::string hash_;
};

}  // namespace paceline

#endif  // COMMON_TOKEN_FILE_TOKEN_FILE_H_
