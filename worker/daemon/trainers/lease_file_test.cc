#include "worker/daemon/trainers/lease_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace paceline {
namespace {

std::string NewDir() {
  std::string dir = ::testing::TempDir() + "/lease_file_test.XXXXXX";
  EXPECT_NE(::mkdtemp(dir.data()), nullptr);
  return dir;
}

TEST(LeaseFileTest, LaterDaemonReadsWhatWasKept) {
  const std::string dir = NewDir();
  const Lease lease(absl::Seconds(60), absl::UnixEpoch() + absl::Seconds(123.5));
  KeepLease(dir, lease);
  EXPECT_EQ(ReadLease(dir).length(), lease.length());
  EXPECT_EQ(ReadLease(dir).end(), lease.end());
  KeepLease(dir, Lease());
  EXPECT_EQ(ReadLease(dir).end(), absl::InfiniteFuture());
  EXPECT_TRUE(std::filesystem::is_empty(dir));
}

TEST(LeaseFileTest, WhatCannotBeUnderstoodIsNoLease) {
  const std::string dir = NewDir();
  for (const char* text : {"", "60\n", "x\ny\n", "-1\n5\n"}) {
    std::ofstream(dir + "/lease", std::ios::trunc) << text;
    EXPECT_EQ(ReadLease(dir).end(), absl::InfiniteFuture()) << text;
  }
}

}  // namespace
}  // namespace paceline
