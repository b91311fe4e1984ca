// Whatever bytes an image shard has, it is refused or can be read from its first image to its last.
#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/image_shard/image_shard.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/input_file.h"

namespace paceline {
namespace {

void Read(absl::string_view contents) {
  const InputFile input(contents);
  const absl::StatusOr<ImageShard> shard = ImageShard::Open(input.path());
  if (!shard.ok()) {
    PACELINE_EXPECT(absl::IsDataLoss(shard.status()) || absl::IsFailedPrecondition(shard.status()));
    return;
  }
  PACELINE_EXPECT(shard->size() >= 1 && shard->CheckSize().ok());
  uint64_t sum = 0;
  for (int64_t i = 0; i < shard->size(); ++i) {
    PACELINE_EXPECT(shard->labels()[static_cast<size_t>(i)] < shard->format().classes);
    const uint8_t* image = shard->image(i);
    for (uint64_t p = 0; p < shard->format().image_bytes(); ++p) sum += image[p];
  }
  PACELINE_EXPECT(sum <= 255 * contents.size());
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}
