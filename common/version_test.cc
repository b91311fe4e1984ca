#include "common/version.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(VersionTest, ALaterReleaseHasAHigherMajorOrMinor) {
  EXPECT_TRUE(IsLaterRelease("0.2.0", "0.1.9"));
  EXPECT_TRUE(IsLaterRelease("0.10", "0.9.0"));
  EXPECT_TRUE(IsLaterRelease("1.0.0-rc1", "0.99.0"));
  EXPECT_FALSE(IsLaterRelease("0.1.10", "0.1.9"));
  EXPECT_FALSE(IsLaterRelease("0.9.0", "1.0.0"));
  EXPECT_FALSE(IsLaterRelease(kVersion, kVersion));
}

TEST(VersionTest, WhatIsNoVersionIsNoLaterOne) {
  for (const char* none : {"", "1", "x.2.0", "1.x", "99999999999.0"}) {
    EXPECT_FALSE(IsLaterRelease(none, "0.1.0")) << none;
  }
}

}  // namespace
}  // namespace paceline
