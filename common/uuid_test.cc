#include "common/uuid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(UuidTest, HasTheFormOfARandomUuidAndDiffersEachTime) {
  const std::string uuid = NewUuid();
  EXPECT_THAT(uuid, ::testing::MatchesRegex(
                        "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  EXPECT_NE(uuid, NewUuid());
}

}  // namespace
}  // namespace paceline
