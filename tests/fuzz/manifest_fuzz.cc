// Whatever a manifest holds, it is refused or can be written again as it was read.
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/checksum.h"
#include "common/checkpoint/manifest.h"
#include "tests/fuzz/expect.h"

namespace paceline {
namespace {

void ReadAndWriteAgain(absl::string_view contents) {
  const absl::StatusOr<Manifest> read = ParseManifest(contents);
  if (!read.ok()) {
    PACELINE_EXPECT(absl::IsDataLoss(read.status()) || absl::IsUnimplemented(read.status()));
    return;
  }
  const std::string written = FormatManifest(*read);
  const absl::StatusOr<Manifest> again = ParseManifest(written);
  PACELINE_EXPECT(again.ok());
  PACELINE_EXPECT(FormatManifest(*again) == written);

  for (const ManifestTensor& tensor : read->tensors) {
    PACELINE_EXPECT(TensorBytes(tensor) >= 0 && RowBytes(tensor) >= 0);
  }
  // The parts must make up a complete checkpoint.
  Manifest part = *read;
  part.ranks = 1;
  const absl::StatusOr<Manifest> merged = MergeManifests({part});
  PACELINE_EXPECT(merged.ok() == CheckComplete(*read).ok());
  if (merged.ok()) PACELINE_EXPECT(FormatManifest(*merged) == FormatManifest(part));
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view contents(reinterpret_cast<const char*>(data), size);
  paceline::ReadAndWriteAgain(contents);
  // The fuzzer cannot guess a checksum: try once more with the right one.
  const size_t line_end = contents.find('\n');
  const absl::string_view body =
      line_end == absl::string_view::npos ? contents : contents.substr(line_end + 1);
  paceline::ReadAndWriteAgain(absl::StrCat(
      "{\"checksum\": \"", paceline::ChecksumText(paceline::ChecksumOf(body)), "\",\n", body));
  return 0;
}
