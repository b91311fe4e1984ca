// Whatever bytes a safetensors file has, it is refused or can be written again as it was read.
#include <cstdint>
#include <map>

#include "absl/strings/string_view.h"
#include "common/safetensors/safetensors.h"
#include "tests/fuzz/expect.h"

namespace paceline {
namespace {

std::map<std::string, Safetensor> ByName(const std::vector<Safetensor>& tensors) {
  std::map<std::string, Safetensor> by_name;
  for (const Safetensor& tensor : tensors) {
    PACELINE_EXPECT(by_name.emplace(tensor.name, tensor).second);
  }
  return by_name;
}

void ReadAndWriteAgain(absl::string_view contents) {
  const absl::StatusOr<std::vector<Safetensor>> read = ParseSafetensors(contents);
  if (!read.ok()) {
    PACELINE_EXPECT(absl::IsDataLoss(read.status()));
    return;
  }
  absl::StatusOr<std::string> written = SafetensorsHeader(*read, /*alignment=*/64);
  PACELINE_EXPECT(written.ok());
  PACELINE_EXPECT(written->size() % 64 == 0);
  for (const Safetensor& tensor : *read) written->append(tensor.bytes.data(), tensor.bytes.size());
  const absl::StatusOr<std::vector<Safetensor>> again = ParseSafetensors(*written);
  PACELINE_EXPECT(again.ok());
  PACELINE_EXPECT(again->size() == read->size());
  const std::map<std::string, Safetensor> expected = ByName(*read);
  for (const auto& [name, tensor] : ByName(*again)) {
    const auto at = expected.find(name);
    PACELINE_EXPECT(at != expected.end());
    PACELINE_EXPECT(at->second.dtype == tensor.dtype);
    PACELINE_EXPECT(at->second.shape == tensor.shape);
    PACELINE_EXPECT(at->second.bytes == tensor.bytes);
  }
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::ReadAndWriteAgain({reinterpret_cast<const char*>(data), size});
  return 0;
}
