// Writes a checkpoint of two ranks: write_checkpoint DIRECTORY. Element i of each tensor is i, as
// reading_test.py expects.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/checkpoint/testing/written_checkpoint.h"

namespace {

template <typename Element>
std::string Counted(int count) {
  std::vector<Element> elements;
  for (int i = 0; i < count; ++i) elements.push_back(static_cast<Element>(i));
  return {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Element)};
}

// The upper half of a float: exact for small integers.
std::string CountedBfloat16(int count) {
  const std::string floats = Counted<float>(count);
  std::string bytes;
  for (size_t i = 0; i < floats.size(); i += 4) bytes += floats.substr(i + 2, 2);
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string weight = Counted<float>(64 * 24);
  const std::string moment = Counted<double>(5 * 3);
  const std::string half = CountedBfloat16(6 * 32);
  const std::string labels = Counted<uint8_t>(7);
  const std::string batches = Counted<int64_t>(1);
  const absl::StatusOr<paceline::Manifest> manifest =
      paceline::WriteCheckpoint(argv[1], paceline::ExampleManifest(120, 2),
                                {{"model/weight", "F32", {64, 24}, weight},
                                 {"model/half", "BF16", {6, 32}, half},
                                 {"model/labels", "U8", {7}, labels},
                                 {"model/batches", "I64", {}, batches},
                                 {"optimizer/exp_avg/weight", "F64", {5, 3}, moment}});
  if (manifest.ok()) return 0;
  std::fprintf(stderr, "%s\n", manifest.status().ToString().c_str());
  return 1;
}
