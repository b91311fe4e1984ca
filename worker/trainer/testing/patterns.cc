#include "worker/trainer/testing/patterns.h"

#include <algorithm>
#include <random>
#include <vector>

#include "common/image_shard/image_shard.h"
#include "common/log.h"

namespace paceline {

namespace {

constexpr int kClasses = 10;

template <typename F>
void Write(const std::string& path, int count, uint64_t seed, F draw_label) {
  const ImageFormat format{1, 8, 8, kClasses};
  std::mt19937_64 random(seed);
  std::vector<uint32_t> labels;
  std::vector<uint8_t> pixels;
  for (int i = 0; i < count; ++i) {
    labels.push_back(static_cast<uint32_t>(draw_label(i, random())));
    const int number = static_cast<int>(labels.back());
    for (int pixel = 0; pixel < 64; ++pixel) {
      const int value = (number * 97 + pixel * (37 + 6 * number)) % 256;
      const int noise = static_cast<int>(random() % 121) - 60;
      pixels.push_back(static_cast<uint8_t>(std::clamp(value + noise, 0, 255)));
    }
  }
  PACELINE_CHECK(WriteImageShard(path, format, labels, pixels).ok());
}

}  // namespace

void WritePatterns(const std::string& path, int count, uint64_t seed) {
  Write(path, count, seed, [](int /*number*/, uint64_t drawn) { return drawn % kClasses; });
}

void WriteSortedPatterns(const std::string& path, int count, uint64_t seed, int ranks) {
  Write(path, count, seed, [ranks](int number, uint64_t drawn) {
    const int first = number % ranks;
    const int labels = (kClasses - first + ranks - 1) / ranks;
    return static_cast<uint64_t>(first) + ranks * (drawn % labels);
  });
}

}  // namespace paceline
