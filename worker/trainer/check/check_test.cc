// The parts of the probe that need no torch. The daemon's tests run the whole probe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "worker/trainer/check/gpu_check.h"
#include "worker/trainer/check/host_check.h"
#include "worker/trainer/check/pair_check.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(const std::vector<Measurement>& measurements) {
  std::vector<std::string> names;
  for (const Measurement& measurement : measurements) names.push_back(measurement.name);
  return names;
}

TEST(MeasurementTest, IsALineOfJson) {
  EXPECT_EQ(ToJson({"gemm", 2.5, "GFLOP/s", true}),
            R"({"more_is_better":true,"name":"gemm","unit":"GFLOP/s","value":2.5})");
  EXPECT_EQ(ErrorToJson("no \"disk\" \xff"), "{\"error\":\"no \\\"disk\\\" \xEF\xBF\xBD\"}");
  EXPECT_EQ(Median({5, 1, 3}), 3);
}

TEST(HostCheckTest, MeasuresMemoryAndDisk) {
  const auto memory = CheckMemory(8 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_THAT(Names(*memory), ElementsAre("memory_bandwidth"));
  EXPECT_GT(memory->front().value, 0.01);
  // A file system without O_DIRECT, and that of the tests.
  for (const std::string& dir : {std::string("/dev/shm"), ::testing::TempDir()}) {
    const auto disk = CheckDisk(dir, 8 << 20);
    ASSERT_TRUE(disk.ok()) << disk.status();
    EXPECT_THAT(Names(*disk), ElementsAre("disk_write", "disk_read"));
    for (const Measurement& measurement : *disk) EXPECT_GT(measurement.value, 0) << dir;
  }
}

TEST(HostCheckTest, SlowMemoryIsStillMeasured) {
  const auto memory = CheckMemory(8 << 20, absl::Nanoseconds(1));
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->front().value, 0.01);
}

TEST(HostCheckTest, SlowDiskIsCutShort) {
  const auto disk = CheckDisk(::testing::TempDir(), 64 << 20, absl::Nanoseconds(1));
  ASSERT_TRUE(disk.ok()) << disk.status();
  EXPECT_EQ(disk->front().value, 0);
}

TEST(HostCheckTest, WhatCannotBeMeasuredIsTold) {
  EXPECT_THAT(std::string(CheckDisk("/nonexistent").status().message()), HasSubstr("/nonexistent"));
  EXPECT_EQ(CheckDisk("/dev/shm", size_t{1} << 50).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CheckMemory(size_t{1} << 50).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(PairCheckTest, MeasuresTheWayToAnotherProbe) {
  const auto server = PairServer::Start(0);
  ASSERT_TRUE(server.ok()) << server.status();
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const auto pair =
        CheckPair(std::string(host) + ":" + std::to_string((*server)->port()), absl::Seconds(5));
    ASSERT_TRUE(pair.ok()) << pair.status();
    EXPECT_THAT(Names(*pair), ElementsAre("pair_latency", "pair_bandwidth"));
    for (const Measurement& measurement : *pair) EXPECT_GT(measurement.value, 0);
  }
}

TEST(PairCheckTest, ServerEndsThoughAPeerSaysNothing) {
  auto server = PairServer::Start(0, "127.0.0.1");
  ASSERT_TRUE(server.ok()) << server.status();
  const int silent = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>((*server)->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(silent, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  absl::SleepFor(absl::Milliseconds(100));
  const absl::Time start = absl::Now();
  server->reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  ::close(silent);
}

TEST(PairCheckTest, PeerThatDoesNotAnswerIsNamed) {
  const auto pair = CheckPair("127.0.0.1:1", absl::Milliseconds(10));
  EXPECT_EQ(pair.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(pair.status().message()), HasSubstr("127.0.0.1:1"));
  EXPECT_EQ(CheckPair("here", absl::Seconds(5)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GpuCheckTest, TellsWhatIsKnownOfEach) {
  const auto nvml = Nvml::Open("worker/nvml/libfake_nvml.so");
  ASSERT_NE(nvml, nullptr);
  const std::vector<Measurement> gpus = CheckGpus(*nvml);
  EXPECT_THAT(Names(gpus), ElementsAre("gpu0_temperature", "gpu0_ecc_errors", "gpu0_throttled"));
  EXPECT_EQ(gpus[0].value, 45);
  EXPECT_EQ(gpus[2].value, 1);
}

TEST(GpuCheckTest, CountsXidsThatAreFaultsOfTheNode) {
  EXPECT_EQ(CountXids("3,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off\n"
                      "3,1,2,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=2, name=python\n"
                      "NVRM: Xid (PCI:0000:5e:00): 48, ...\nnothing\nNVRM: Xid (cut"),
            2);
}

}  // namespace
}  // namespace paceline
