#include "worker/link/frame.h"

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

constexpr size_t kLengthBytes = 4;

uint32_t ReadLength(const std::string& bytes, size_t at) {
  uint32_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return length;
}

}  // namespace

std::string EncodeFrame(absl::string_view payload) {
  std::string frame;
  frame.reserve(kLengthBytes + payload.size());
  for (size_t i = 0; i < kLengthBytes; ++i) {
    frame.push_back(static_cast<char>(payload.size() >> (8 * i) & 0xff));
  }
  frame.append(payload.data(), payload.size());
  return frame;
}

void FrameDecoder::Append(absl::string_view bytes) {
  buffer_.erase(0, taken_);
  taken_ = 0;
  buffer_.append(bytes.data(), bytes.size());
}

absl::StatusOr<std::optional<std::string>> FrameDecoder::Next() {
  if (buffer_.size() - taken_ < kLengthBytes) return std::nullopt;
  const uint32_t length = ReadLength(buffer_, taken_);
  if (length > kMaxFrameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame of ", length, " bytes is beyond the limit of ", kMaxFrameBytes));
  }
  if (buffer_.size() - taken_ - kLengthBytes < length) return std::nullopt;
  std::string payload = buffer_.substr(taken_ + kLengthBytes, length);
  taken_ += kLengthBytes + length;
  return payload;
}

}  // namespace paceline
