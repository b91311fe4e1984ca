#include "worker/trainer/testing/patterns.h"

#include <algorithm>
#include <random>
#include <vector>

#include "common/image_shard/image_shard.h"
#include "common/log.h"

namespace paceline {

void WritePatterns(const std::string& path, int count, uint64_t seed) {
  constexpr uint32_t kClasses = 10;
  const ImageFormat format{1, 8, 8, kClasses};
  std::mt19937_64 random(seed);
  std::vector<uint32_t> labels;
  std::vector<uint8_t> pixels;
  for (int i = 0; i < count; ++i) {
    labels.push_back(static_cast<uint32_t>(random() % kClasses));
    const int number = static_cast<int>(labels.back());
    for (int pixel = 0; pixel < 64; ++pixel) {
      const int value = (number * 97 + pixel * (37 + 6 * number)) % 256;
      const int noise = static_cast<int>(random() % 121) - 60;
      pixels.push_back(static_cast<uint8_t>(std::clamp(value + noise, 0, 255)));
    }
  }
  PACELINE_CHECK(WriteImageShard(path, format, labels, pixels).ok());
}

}  // namespace paceline
