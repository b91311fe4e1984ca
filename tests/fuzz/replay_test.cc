// Runs a fuzz target on each input of its corpus, the folder that is the program's argument.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::string corpus;

std::vector<std::string> Inputs() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<uint8_t> Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(ReplayTest, EveryInputOfTheCorpusHolds) {
  const std::vector<std::string> inputs = Inputs();
  ASSERT_GE(inputs.size(), 10u) << corpus;
  for (const std::string& path : inputs) {
    SCOPED_TRACE(path);
    const std::vector<uint8_t> bytes = Read(path);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

TEST(ReplayTest, EveryTruncationOfTheCorpusHolds) {
  for (const std::string& path : Inputs()) {
    const std::vector<uint8_t> bytes = Read(path);
    const size_t step = bytes.size() / 64 + 1;
    for (size_t size = 0; size < bytes.size(); size += step) {
      // A buffer of its own, so that a sanitizer sees reads beyond it.
      const std::vector<uint8_t> begin(bytes.begin(), bytes.begin() + static_cast<int64_t>(size));
      LLVMFuzzerTestOneInput(begin.data(), begin.size());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  corpus = argv[1];
  return RUN_ALL_TESTS();
}
