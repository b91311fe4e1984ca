#include "worker/daemon/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iostream>

#include "common/exit_codes.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;
using ::testing::Pair;

std::optional<int> Parse(std::vector<const char*> arguments, Flags& flags) {
  arguments.insert(arguments.begin(), "paceline-worker");
  return ParseFlags(static_cast<int>(arguments.size()), arguments.data(), flags);
}

TEST(FlagsTest, HelpAndVersionThatCannotBeWrittenAreAFailure) {
  for (const char* flag : {"--help", "--version"}) {
    std::ofstream full("/dev/full");
    std::streambuf* const before = std::cout.rdbuf(full.rdbuf());
    Flags flags;
    const std::optional<int> exit = Parse({flag}, flags);
    std::cout.rdbuf(before);
    EXPECT_EQ(exit, kExitFailure) << flag;
  }
}

TEST(FlagsTest, EmptyFlagsAreFilledIn) {
  Flags flags;
  ASSERT_EQ(Parse({"--controller", "127.0.0.1:7450"}, flags), std::nullopt);
  ASSERT_TRUE(FillDefaults(8, "node-a", "/opt/bin", flags).ok());
  EXPECT_EQ(flags.name, "node-a");
  EXPECT_EQ(flags.slots, 8);
  EXPECT_EQ(flags.address, "127.0.0.1");
  EXPECT_EQ(flags.interface, "127.0.0.1");
  EXPECT_EQ(flags.trainer, "/opt/bin/paceline-trainer");
  EXPECT_EQ(flags.shim, "/opt/bin/paceline-shim");
  EXPECT_EQ(flags.probe, "/opt/bin/paceline-probe");
}

TEST(FlagsTest, FarControllerNeedsAnAddressThatOthersReach) {
  Flags flags;
  Parse({"--controller", "head:7450"}, flags);
  ASSERT_TRUE(FillDefaults(8, "node-a", "/opt/bin", flags).ok());
  EXPECT_EQ(flags.address, "node-a");
  EXPECT_EQ(flags.interface, "");
}

TEST(FlagsTest, ControllerOnTheLoopbackOfIpv6NeedsThatAlone) {
  Flags flags;
  Parse({"--controller", "[::1]:7450", "--listen", "[::1]:0", "--plaintext"}, flags);
  ASSERT_TRUE(FillDefaults(8, "node-a", "/opt/bin", flags).ok());
  EXPECT_EQ(flags.address, "::1");
  EXPECT_EQ(flags.interface, "::1");
  flags = Flags();
  Parse({"--controller", "head:7450", "--address", "[fd00::2]"}, flags);
  ASSERT_TRUE(FillDefaults(8, "node-a", "/opt/bin", flags).ok());
  EXPECT_EQ(flags.address, "fd00::2");
  EXPECT_EQ(Advertised("[::]:9", flags.address), "[fd00::2]:9");
  EXPECT_EQ(Advertised("[::1]:9", flags.address), "[::1]:9");
  for (const char* wrong : {"::1", "::1:7450", "[::1]"}) {
    flags.controller = wrong;
    EXPECT_FALSE(FillDefaults(8, "node-a", "/opt/bin", flags).ok()) << wrong;
  }
}

TEST(FlagsTest, EachOfSeveralControllersIsLookedAt) {
  Flags flags;
  Parse({"--controller", "127.0.0.1:1,head:2"}, flags);
  ASSERT_TRUE(FillDefaults(8, "node-a", "/opt/bin", flags).ok());
  EXPECT_EQ(flags.address, "node-a") << "one of them is far";
  flags.controller = "head:1,nowhere";
  const absl::Status status = FillDefaults(8, "node-a", "/opt/bin", flags);
  EXPECT_EQ(status.message(),
            "--controller: \"nowhere\" is no address; write HOST:PORT, and an "
            "IPv6 address in brackets, as in [::1]:7450");
}

TEST(FlagsTest, GivenFlagsStay) {
  Flags flags;
  Parse({"--controller", "localhost:1", "--name", "x", "--slots", "3", "--address", "10.0.0.1",
         "--shim", "/s", "--label", "zone=a", "--label", "rack=7"},
        flags);
  ASSERT_TRUE(FillDefaults(8, "node-a", "/opt/bin", flags).ok());
  EXPECT_EQ(flags.name, "x");
  EXPECT_EQ(flags.slots, 3);
  EXPECT_EQ(flags.address, "10.0.0.1");
  EXPECT_EQ(flags.shim, "/s");
  EXPECT_THAT(*ParseLabels(flags.labels), ElementsAre(Pair("rack", "7"), Pair("zone", "a")));
}

TEST(FlagsTest, FlagsComeFromAFileToo) {
  const std::string path = ::testing::TempDir() + "/flags_test." + std::to_string(::getpid());
  std::ofstream(path) << "controller=head:1\nslots=5\n";
  Flags flags;
  EXPECT_EQ(Parse({"--config", path.c_str()}, flags), std::nullopt);
  EXPECT_EQ(flags.slots, 5);
  ::unlink(path.c_str());
}

TEST(FlagsTest, TrainersAreConfinedOnlyAsIsSaid) {
  Flags flags;
  EXPECT_EQ(Parse({"--controller", "a:1"}, flags), std::nullopt);
  EXPECT_EQ(flags.run_as, "");
  EXPECT_TRUE(flags.allowed_roots.empty());
  EXPECT_EQ(flags.limit_core, std::nullopt);
  EXPECT_EQ(Parse({"--controller", "a:1", "--run-as", "jobs:gpu", "--allowed-root", "/a",
                   "--allowed-root", "/b", "--limit-nofile", "4096", "--limit-core", "0",
                   "--limit-memory", "1099511627776", "--limit-processes", "5000"},
                  flags),
            std::nullopt);
  EXPECT_EQ(flags.run_as, "jobs:gpu");
  EXPECT_THAT(flags.allowed_roots, ElementsAre("/a", "/b"));
  EXPECT_THAT(flags.limit_nofile, Optional(uint64_t{4096}));
  EXPECT_THAT(flags.limit_core, Optional(uint64_t{0}));
  EXPECT_THAT(flags.limit_memory, Optional(uint64_t{1} << 40));
  EXPECT_THAT(flags.limit_processes, Optional(uint64_t{5000}));
  EXPECT_THAT(Parse({"--controller", "a:1", "--limit-nofile", "3"}, flags),
              Optional(static_cast<int>(kExitUsage)));
}

TEST(FlagsTest, ObjectsAreReadOnlyAsIsSaid) {
  Flags flags;
  EXPECT_EQ(Parse({"--controller", "a:1", "--state-dir", "/s"}, flags), std::nullopt);
  EXPECT_TRUE(FillDefaults(1, "h", "/", flags).ok());
  EXPECT_TRUE(flags.object_stores.empty());
  EXPECT_EQ(flags.object_cache, "/s/objects");
  EXPECT_EQ(Parse({"--controller", "a:1", "--object-store", "s3://b/", "--object-store", "gs://",
                   "--object-cache-bytes", "0"},
                  flags),
            std::nullopt);
  EXPECT_THAT(flags.object_stores, ElementsAre("s3://b/", "gs://"));
  EXPECT_EQ(flags.object_cache_bytes, 0);
}

TEST(FlagsTest, WrongUsageHasItsExitCode) {
  Flags flags;
  EXPECT_THAT(Parse({}, flags), Optional(static_cast<int>(kExitUsage)));
  EXPECT_THAT(Parse({"--controller", "a:1", "--slots", "0"}, flags),
              Optional(static_cast<int>(kExitUsage)));
  EXPECT_THAT(Parse({"--controller", "a:1", "--nonsense"}, flags),
              Optional(static_cast<int>(kExitUsage)));
  EXPECT_THAT(Parse({"--help"}, flags), Optional(static_cast<int>(kExitOk)));
}

TEST(FlagsTest, PlainTextIsForThisMachineOnly) {
  Flags flags;
  Parse({"--controller", "127.0.0.1:7450", "--plaintext"}, flags);
  EXPECT_TRUE(FillDefaults(8, "node-a", "/opt/bin", flags).ok());
  for (const char* controller : {"head:7450", "127.evil.com:7450"}) {
    Flags far;
    Parse({"--controller", controller, "--plaintext"}, far);
    EXPECT_EQ(FillDefaults(8, "node-a", "/opt/bin", far).code(),
              absl::StatusCode::kInvalidArgument);
  }
  Flags open;
  Parse({"--controller", "127.0.0.1:7450", "--plaintext", "--listen", "0.0.0.0:9100"}, open);
  EXPECT_EQ(FillDefaults(8, "node-a", "/opt/bin", open).code(), absl::StatusCode::kInvalidArgument);
}

TEST(FlagsTest, AllInterfacesAreAdvertisedAsTheHost) {
  EXPECT_EQ(Advertised("0.0.0.0:91", "node-a"), "node-a:91");
  EXPECT_EQ(Advertised("[::]:91", "node-a"), "node-a:91");
  EXPECT_EQ(Advertised("127.0.0.1:91", "node-a"), "127.0.0.1:91");
}

TEST(FlagsTest, ImpossibleValuesAreExplained) {
  Flags flags;
  flags.controller = "nowhere";
  EXPECT_EQ(FillDefaults(1, "h", "/", flags).code(), absl::StatusCode::kInvalidArgument);
  flags.controller = "a:1";
  for (const char* root : {"srv", "/srv/../etc", ""}) {
    flags.allowed_roots = {root};
    EXPECT_EQ(FillDefaults(1, "h", "/", flags).code(), absl::StatusCode::kInvalidArgument) << root;
  }
  flags.allowed_roots = {};
  for (const char* prefix : {"corpora", "ftp://x", "s3://b/..", "http://example.org"}) {
    flags.object_stores = {prefix};
    EXPECT_EQ(FillDefaults(1, "h", "/", flags).code(), absl::StatusCode::kInvalidArgument)
        << prefix;
  }
  EXPECT_EQ(ParseLabels({"novalue"}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline
