#include "controller/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/exit_codes.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

std::optional<int> Parse(std::vector<const char*> arguments, ControllerFlags& flags) {
  arguments.insert(arguments.begin(), "paceline-controller");
  return ParseFlags(static_cast<int>(arguments.size()), arguments.data(), flags);
}

TEST(ControllerFlagsTest, HelpAndVersionThatCannotBeWrittenAreAFailure) {
  for (const char* flag : {"--help", "--version"}) {
    std::ofstream full("/dev/full");
    std::streambuf* const before = std::cout.rdbuf(full.rdbuf());
    ControllerFlags flags;
    const std::optional<int> exit = Parse({flag}, flags);
    std::cout.rdbuf(before);
    EXPECT_EQ(exit, kExitFailure) << flag;
  }
}

TEST(ControllerFlagsTest, WithoutAnyItServesThisMachineOutOfSqlite) {
  ControllerFlags flags;
  ASSERT_EQ(Parse({}, flags), std::nullopt);
  EXPECT_EQ(flags.server.listen, "127.0.0.1:7450");
  EXPECT_EQ(flags.server.http, "127.0.0.1:7451");
  EXPECT_EQ(flags.server.tls_dir, "/etc/paceline/tls");
  EXPECT_FALSE(flags.server.plaintext);
  EXPECT_EQ(flags.store, "sqlite");
}

TEST(ControllerFlagsTest, TimesAreInSeconds) {
  ControllerFlags flags;
  ASSERT_EQ(
      Parse({"--node-lease", "5", "--worker-certificate-life", "10", "--lease", "2.5"}, flags),
      std::nullopt);
  EXPECT_EQ(flags.server.cluster.node_lease, absl::Seconds(5));
  EXPECT_EQ(flags.server.worker_certificate_life, absl::Seconds(10));
  EXPECT_EQ(flags.leading.lease, absl::Milliseconds(2500));
}

TEST(ControllerFlagsTest, TimesThatAreNotSaidAreTheDefaultOnes) {
  ControllerFlags flags;
  ASSERT_EQ(Parse({}, flags), std::nullopt);
  EXPECT_EQ(flags.server.cluster.node_lease, absl::Seconds(60));
  EXPECT_EQ(flags.server.worker_certificate_life, kWorkerLife);
  EXPECT_EQ(flags.leading.lease, absl::Seconds(3));
}

TEST(ControllerFlagsTest, BurstsAreWorthTenSeconds) {
  ControllerFlags flags;
  ASSERT_EQ(Parse({"--mutation-rate", "3", "--call-rate", "7"}, flags), std::nullopt);
  EXPECT_EQ(flags.server.limits.mutation_burst, 30);
  EXPECT_EQ(flags.server.limits.calls_per_s, 7);
  EXPECT_EQ(flags.server.limits.call_burst, 70);
}

TEST(ControllerFlagsTest, MembersOfEtcdAreAList) {
  ControllerFlags flags;
  ASSERT_EQ(Parse({"--store", "etcd", "--etcd-endpoints", "a:1,b:2"}, flags), std::nullopt);
  EXPECT_EQ(flags.store, "etcd");
  EXPECT_THAT(flags.leading.etcd.endpoints, ElementsAre("a:1", "b:2"));
}

TEST(ControllerFlagsTest, ImpossibleValueIsWrongUsage) {
  ControllerFlags flags;
  EXPECT_EQ(Parse({"--lease", "1"}, flags), kExitUsage);
  EXPECT_EQ(Parse({"--store", "files"}, flags), kExitUsage);
  EXPECT_EQ(Parse({"--max-out-share", "2"}, flags), kExitUsage);
}

}  // namespace
}  // namespace paceline
