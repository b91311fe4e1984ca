#include "worker/daemon/core/code_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CodeUseTest, CodeIsKeptAsLongAsItIsNeededAndAWhileLonger) {
  const absl::Time start = absl::UnixEpoch();
  const JobId a("job-a");
  const JobId b("job-b");
  CodeUse use;
  use.Begin(a, start);
  use.Begin(b, start);
  EXPECT_THAT(use.TakeUnused({a, b}, start + absl::Hours(1)), IsEmpty());
  const absl::Time left = start + absl::Hours(1);
  EXPECT_THAT(use.TakeUnused({a}, left + CodeUse::kKept), IsEmpty());
  EXPECT_THAT(use.TakeUnused({a}, left + CodeUse::kKept + absl::Nanoseconds(1)), ElementsAre(b));
  EXPECT_THAT(use.TakeUnused({a}, left + 2 * CodeUse::kKept), IsEmpty()) << "told once";
}

TEST(CodeUseTest, AJobThatComesBackInTimeKeepsItsCode) {
  const absl::Time start = absl::UnixEpoch();
  const JobId a("job-a");
  CodeUse use;
  use.Begin(a, start);
  EXPECT_THAT(use.TakeUnused({}, start + CodeUse::kKept), IsEmpty());
  EXPECT_THAT(use.TakeUnused({a}, start + 2 * CodeUse::kKept), IsEmpty());
  EXPECT_THAT(use.TakeUnused({}, start + 3 * CodeUse::kKept), IsEmpty());
}

}  // namespace
}  // namespace paceline
