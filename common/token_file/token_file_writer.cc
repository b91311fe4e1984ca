#include "common/token_file/token_file_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/token_file/token_header.h"

namespace paceline {
namespace {

using token_header::Header;

constexpr size_t kBufferBytes = size_t{1} << 20u;

absl::string_view Bytes(const Header& header) {
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

template <typename Token>
void AppendTokens(absl::Span<const uint32_t> tokens, std::string* bytes) {
  const size_t start = bytes->size();
  bytes->resize(start + tokens.size() * sizeof(Token));
  char* out = &(*bytes)[start];
  for (uint32_t token : tokens) {
    const auto narrow = static_cast<Token>(token);
    std::memcpy(out, &narrow, sizeof(narrow));
    out += sizeof(narrow);
  }
}

}  // namespace

absl::StatusOr<TokenFileWriter> TokenFileWriter::Create(const std::string& path, TokenType type,
                                                        int64_t vocab_size) {
  if (vocab_size < 1 || vocab_size > MaxVocabSize(type)) {
    return absl::InvalidArgumentError(absl::StrCat("a vocabulary of ", vocab_size, " for ",
                                                   TokenTypeName(type), " tokens, not of 1 to ",
                                                   MaxVocabSize(type)));
  }
  PACELINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  // Overwritten at the end, when the number of tokens is known.
  PACELINE_RETURN_IF_ERROR(file.Append(Bytes(Header{})));
  return TokenFileWriter(std::move(file), type, vocab_size);
}

TokenFileWriter::TokenFileWriter(AtomicFile file, TokenType type, int64_t vocab_size)
    : file_(std::move(file)), type_(type), vocab_size_(vocab_size) {
  buffer_.reserve(kBufferBytes);
}

absl::Status TokenFileWriter::Append(absl::Span<const uint32_t> tokens) {
  while (!tokens.empty()) {
    const auto piece = tokens.subspan(0, kBufferBytes / sizeof(uint32_t));
    tokens.remove_prefix(piece.size());
    if (const uint32_t largest = *std::max_element(piece.begin(), piece.end());
        largest >= vocab_size_) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", largest, " is not less than the vocabulary's ", vocab_size_));
    }
    const size_t bytes = piece.size() * static_cast<size_t>(TokenBytes(type_));
    if (buffer_.size() + bytes > kBufferBytes) PACELINE_RETURN_IF_ERROR(Flush());
    if (type_ == TokenType::kUint16) {
      AppendTokens<uint16_t>(piece, &buffer_);
    } else {
      AppendTokens<uint32_t>(piece, &buffer_);
    }
    size_ += static_cast<int64_t>(piece.size());
  }
  return absl::OkStatus();
}

absl::Status TokenFileWriter::Flush() {
  PACELINE_RETURN_IF_ERROR(file_.Append(buffer_));
  sha256_.Add(buffer_);
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status TokenFileWriter::Finish() {
  if (size_ == 0) return absl::InvalidArgumentError("a token file needs at least one token");
  PACELINE_RETURN_IF_ERROR(Flush());
  Header header{};
  std::memcpy(header.magic, kTokenFileMagic.data(), sizeof(header.magic));
  header.version = token_header::kVersion;
  header.token_bytes = static_cast<uint32_t>(TokenBytes(type_));
  header.count = static_cast<uint64_t>(size_);
  header.vocab_size = static_cast<uint64_t>(vocab_size_);
  header.tokens_offset = sizeof(Header);
  const std::string hash = absl::HexStringToBytes(sha256_.Hex());
  std::memcpy(header.hash, hash.data(), sizeof(header.hash));
  PACELINE_RETURN_IF_ERROR(file_.Overwrite(0, Bytes(header)));
  return file_.Commit();
}

}  // namespace paceline
