#include "common/token_file/token_file.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/token_file/token_header.h"

namespace paceline {
namespace {

using token_header::Header;

absl::Status Damaged(const std::string& path, uint64_t offset, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": at offset ", offset, ": ", what));
}

// Checks the header of a file with `bytes` bytes.
absl::Status CheckHeader(const Header& header, const std::string& path, uint64_t bytes) {
  if (kTokenFileMagic != absl::string_view(header.magic, sizeof(header.magic))) {
    return Damaged(path, 0, "not a token file (bad magic)");
  }
  if (header.version > token_header::kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": at offset 8: written in format version ", header.version,
                     "; this program reads up to version ", token_header::kVersion));
  }
  if (header.version != token_header::kVersion) {
    return Damaged(path, 8, "format version 0 does not exist");
  }
  if (header.token_bytes != 2 && header.token_bytes != 4) {
    return Damaged(path, 12, absl::StrCat("tokens of ", header.token_bytes, " bytes, not 2 or 4"));
  }
  if (header.count == 0) return Damaged(path, 16, "no tokens");
  const uint64_t ids = uint64_t{1} << (8u * header.token_bytes);
  if (header.vocab_size == 0 || header.vocab_size > ids) {
    return Damaged(path, 24,
                   absl::StrCat("a vocabulary of ", header.vocab_size, ", not of 1 to ", ids));
  }
  if (header.tokens_offset != sizeof(Header)) {
    return Damaged(path, 32, absl::StrCat("tokens_offset is not ", sizeof(Header)));
  }
  if (header.count > (std::numeric_limits<int64_t>::max() - sizeof(Header)) / header.token_bytes) {
    return Damaged(path, 16, "more tokens than a file can hold");
  }
  const uint64_t announced = sizeof(Header) + header.count * header.token_bytes;
  if (bytes < announced) {
    return Damaged(path, bytes,
                   absl::StrCat("truncated: its header announces ", announced, " bytes"));
  }
  if (bytes > announced) {
    return Damaged(path, announced, absl::StrCat(bytes - announced, " bytes too many"));
  }
  return absl::OkStatus();
}

// In hexadecimal digits; empty if there is none.
std::string HashOf(const Header& header) {
  const absl::string_view bytes(reinterpret_cast<const char*>(header.hash), sizeof(header.hash));
  const bool known = bytes.find_first_not_of('\0') != bytes.npos;
  return known ? absl::BytesToHexString(bytes) : "";
}

// Copies the tokens; returns the largest.
template <typename Token>
Token Widen(const Token* in, int64_t count, int64_t* out) {
  Token largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, in[i]);
    out[i] = in[i];
  }
  return largest;
}

absl::Status CheckLength(const std::string& path, uint64_t bytes) {
  if (bytes >= sizeof(Header)) return absl::OkStatus();
  return Damaged(path, bytes,
                 absl::StrCat("truncated: the header alone needs ", sizeof(Header), " bytes"));
}

absl::Status CheckWholeTokens(const std::string& path, uint64_t bytes, TokenType type) {
  const uint64_t left_over = bytes % static_cast<uint64_t>(TokenBytes(type));
  if (left_over == 0) return absl::OkStatus();
  return Damaged(path, bytes - left_over,
                 absl::StrCat("truncated: the last token has ", left_over, " of ", TokenBytes(type),
                              " bytes"));
}

}  // namespace

absl::StatusOr<TokenFile> TokenFile::OfHeader(const char* bytes, const std::string& path,
                                              uint64_t size) {
  Header header;
  std::memcpy(&header, bytes, sizeof(header));
  PACELINE_RETURN_IF_ERROR(CheckHeader(header, path, size));
  TokenFile opened(static_cast<TokenType>(header.token_bytes), static_cast<int64_t>(header.count),
                   sizeof(Header), static_cast<int64_t>(header.vocab_size));
  opened.hash_ = HashOf(header);
  return opened;
}

absl::StatusOr<TokenFile> TokenFile::Open(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(MappedFile file,
                            MappedFile::Open(path, MappedFile::Access::kReadOnDemand));
  PACELINE_RETURN_IF_ERROR(CheckLength(path, file.size()));
  PACELINE_ASSIGN_OR_RETURN(TokenFile opened,
                            OfHeader(static_cast<const char*>(file.data()), path, file.size()));
  opened.file_ = std::move(file);
  return opened;
}

absl::StatusOr<TokenFile> TokenFile::Open(std::shared_ptr<const RangeSource> source) {
  PACELINE_RETURN_IF_ERROR(CheckLength(source->name(), source->size()));
  char header[sizeof(Header)];
  PACELINE_RETURN_IF_ERROR(source->Read(0, sizeof(header), header));
  PACELINE_ASSIGN_OR_RETURN(TokenFile opened, OfHeader(header, source->name(), source->size()));
  opened.source_ = std::move(source);
  return opened;
}

absl::StatusOr<TokenFile> TokenFile::OpenHeaderless(const std::string& path, TokenType type) {
  PACELINE_ASSIGN_OR_RETURN(MappedFile file,
                            MappedFile::Open(path, MappedFile::Access::kReadOnDemand));
  PACELINE_RETURN_IF_ERROR(CheckWholeTokens(path, file.size(), type));
  TokenFile opened(type, static_cast<int64_t>(file.size()) / TokenBytes(type), 0, 0);
  opened.file_ = std::move(file);
  return opened;
}

absl::StatusOr<TokenFile> TokenFile::OpenHeaderless(std::shared_ptr<const RangeSource> source,
                                                    TokenType type) {
  PACELINE_RETURN_IF_ERROR(CheckWholeTokens(source->name(), source->size(), type));
  TokenFile opened(type, static_cast<int64_t>(source->size()) / TokenBytes(type), 0, 0);
  opened.source_ = std::move(source);
  return opened;
}

absl::StatusOr<int64_t> TokenFile::Read(int64_t first, int64_t count, int64_t* tokens) const {
  if (file_.has_value()) {
    return ReadFrom(static_cast<const char*>(file_->data()) + OffsetOf(first), first, count,
                    tokens);
  }
  const auto bytes = static_cast<size_t>(count * TokenBytes(type_));
  const std::unique_ptr<char[]> buffer(new char[bytes]);
  PACELINE_RETURN_IF_ERROR(source_->Read(OffsetOf(first), bytes, buffer.get()));
  return ReadFrom(buffer.get(), first, count, tokens);
}

absl::StatusOr<int64_t> TokenFile::ReadFrom(const char* bytes, int64_t first, int64_t count,
                                            int64_t* tokens) const {
  const int64_t largest = type_ == TokenType::kUint16
                              ? Widen(reinterpret_cast<const uint16_t*>(bytes), count, tokens)
                              : Widen(reinterpret_cast<const uint32_t*>(bytes), count, tokens);
  if (vocab_size_ == 0 || largest < vocab_size_) return largest;
  return OutsideVocabulary(first, tokens, count);
}

absl::Status TokenFile::OutsideVocabulary(int64_t first, const int64_t* tokens,
                                          int64_t count) const {
  const int64_t* const wrong =
      std::find_if(tokens, tokens + count, [this](int64_t token) { return token >= vocab_size_; });
  return Damaged(
      path(), OffsetOf(first + (wrong - tokens)),
      absl::StrCat("token ", *wrong, " is not less than the vocabulary's ", vocab_size_));
}

}  // namespace paceline
