// Whatever bytes a token file has, it is refused or can be read from its first token to its last.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/token_file/token_file.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/input_file.h"

namespace paceline {
namespace {

void ReadAll(const absl::StatusOr<TokenFile>& file) {
  if (!file.ok()) {
    PACELINE_EXPECT(absl::IsDataLoss(file.status()) || absl::IsFailedPrecondition(file.status()));
    return;
  }
  PACELINE_EXPECT(file->size() >= 1 && file->CheckSize().ok());
  std::vector<int64_t> tokens(static_cast<size_t>(file->size()));
  const absl::StatusOr<int64_t> largest = file->Read(0, file->size(), tokens.data());
  if (!largest.ok()) {
    PACELINE_EXPECT(absl::IsDataLoss(largest.status()));
    return;
  }
  PACELINE_EXPECT(*largest == *std::max_element(tokens.begin(), tokens.end()));
  PACELINE_EXPECT(file->vocab_size() == 0 || *largest < file->vocab_size());
}

void Read(absl::string_view contents) {
  const InputFile input(contents);
  ReadAll(TokenFile::Open(input.path()));
  ReadAll(TokenFile::OpenHeaderless(input.path(), TokenType::kUint16));
  ReadAll(TokenFile::OpenHeaderless(input.path(), TokenType::kUint32));
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}
