#include "worker/daemon/trainer_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;

TEST(TrainerEnvironmentTest, KeepsWhatIsListedAndNothingElse) {
  EXPECT_THAT(ScrubEnvironment({"PATH=/bin", "PATHS=x", "AWS_SECRET=1", "NCCL_DEBUG=INFO",
                                "XNCCL_=1", "LC_ALL=C", "NAKED"}),
              ElementsAre("PATH=/bin", "NCCL_DEBUG=INFO", "LC_ALL=C"));
}

}  // namespace
}  // namespace paceline
