#include "worker/trainer/loop/built_in_workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/image_shard/image_shard.h"
#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/object_store/testing/object_server.h"

namespace paceline {
namespace {

// Objects are fetched in blocks of 4 MiB.
constexpr char kSecondBlock[] = "bytes=4194304-";
constexpr char kThirdBlock[] = "bytes=8388608-";

bool AsksFor(const ObjectServer::Request& request, absl::string_view range) {
  const auto found = request.headers.find("range");
  return found != request.headers.end() && absl::StartsWith(found->second, range);
}

void WaitForRequest(const ObjectServer& server, absl::string_view range) {
  const auto has_come = [&] {
    const std::vector<ObjectServer::Request> requests = server.requests();
    return std::any_of(requests.begin(), requests.end(),
                       [&](const ObjectServer::Request& one) { return AsksFor(one, range); });
  };
  while (!has_come()) absl::SleepFor(absl::Milliseconds(1));
}

// An image shard of three blocks and a bit, of 1024 images each.
std::string Shard() {
  constexpr uint32_t kSide = 64;
  constexpr size_t kImages = 3072;
  const std::string path = testing::TempDir() + "/workload.shard";
  EXPECT_TRUE(WriteImageShard(path, {1, kSide, kSide, 10}, std::vector<uint32_t>(kImages, 1),
                              std::vector<uint8_t>(kImages * kSide * kSide, 7))
                  .ok());
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// After a recovery, a rank that was behind takes data as another member once it has caught up.
TEST(BuiltInWorkloadTest, TheEndOfALoaderDoesNotCutOffTheReadsOfTheNext) {
  absl::Notification goes_on;
  ObjectServer server;
  server.Put("/shard", Shard());
  TrainerConfig config;
  config.member.batch = 4;
  config.model.kind = ModelConfig::Kind::kMlp;
  config.model.hidden = {4};
  config.data.train = server.url() + "/shard";
  config.data.shuffle = false;
  config.data.object_stores.allowed = {server.url()};
  CpuPlatform platform;
  BuiltInWorkload workload(config, platform);
  const absl::Status opened = workload.Open(at::kCPU);
  ASSERT_TRUE(opened.ok()) << opened;
  server.SetFault([&](const ObjectServer::Request& request, int) -> std::optional<std::string> {
    if (AsksFor(request, kSecondBlock)) goes_on.WaitForNotification();
    return std::nullopt;
  });
  workload.OpenData(config.member, {0, 1100});
  WaitForRequest(server, kSecondBlock);
  Member caught_up = config.member;
  caught_up.generation = 2;
  workload.OpenData(caught_up, {0, 2148});
  goes_on.Notify();
  // Of a loader whose reads were cut off, this would never come.
  WaitForRequest(server, kThirdBlock);
}

}  // namespace
}  // namespace paceline
