#include "worker/trainer/comm/cpu_host_copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <thread>

namespace paceline {
namespace {

constexpr size_t kBytes = 5 * (1 << 20) + 123;

std::string Pattern(size_t bytes, char first) {
  std::string pattern(bytes, '\0');
  std::iota(pattern.begin(), pattern.end(), first);
  return pattern;
}

TEST(CpuHostCopyTest, HoldsWhatWasThereBeforeTheChange) {
  std::string a = Pattern(kBytes, 'a');
  std::string b = Pattern(7, 'b');
  const std::string before = b + a;
  std::string copied(before.size(), '\0');
  {
    CpuHostCopy copy({{b.data(), copied.data(), b.size()}, {a.data(), &copied[7], a.size()}});
    copy.BeforeChange();
    a.assign(a.size(), 'x');
    b.assign(b.size(), 'y');
    copy.Wait(before.size());
  }
  EXPECT_TRUE(copied == before);
}

TEST(CpuHostCopyTest, NobodyReadsAfterTheChange) {
  // Two chunks, one per thread, repeated so often that each thread is sometimes the last. Each
  // round changes the last byte of each chunk.
  const std::string before = Pattern(2 << 20, 'a');
  for (int i = 0; i < 200; ++i) {
    std::string from = before;
    std::string to(from.size(), '\0');
    CpuHostCopy copy({{from.data(), to.data(), from.size()}});
    copy.BeforeChange();
    from[from.size() / 2 - 1] = 'x';
    from.back() = 'x';
    copy.Wait(from.size());
    const bool same = to == before;
    ASSERT_TRUE(same) << i;
  }
}

TEST(CpuHostCopyTest, WaitsForAsMuchAsIsAskedFor) {
  const std::string from = Pattern(kBytes, 1);
  std::string to(from.size(), '\0');
  CpuHostCopy copy({{from.data(), to.data(), from.size()}});
  for (size_t bytes = 0; bytes <= kBytes; bytes += 100'000) {
    copy.Wait(bytes);
    EXPECT_TRUE(to.compare(0, bytes, from, 0, bytes) == 0) << bytes;
  }
}

TEST(CpuHostCopyTest, NothingToCopyIsThereAtOnce) {
  char byte = 0;
  CpuHostCopy copy({{nullptr, &byte, 0}});
  copy.Wait(0);
  copy.BeforeChange();
}

}  // namespace
}  // namespace paceline
