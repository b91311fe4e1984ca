// Reads of a store that is slow or away.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/trainer/object_store/object_store.h"
#include "worker/trainer/object_store/testing/object_server.h"

namespace paceline {
namespace {

using Source = std::shared_ptr<const RangeSource>;

constexpr size_t kBlockBytes = 1000;

class InterruptedReadTest : public testing::Test {
 protected:
  InterruptedReadTest() {
    std::string name = testing::TempDir() + "/interrupted-XXXXXX";
    EXPECT_NE(::mkdtemp(&name[0]), nullptr);
    options_.allowed = {server_.url()};
    options_.cache_directory = name + "/objects";
    options_.cache_bytes = 1 << 20;
    options_.block_bytes = kBlockBytes;
    options_.disk_space = [](const std::string&) {
      return DiskSpace{int64_t{1} << 40, int64_t{1} << 40};
    };
    server_.Put("/c4", std::string(3 * kBlockBytes, 'x'));
  }

  std::shared_ptr<ObjectStore> Store() {
    absl::StatusOr<std::shared_ptr<ObjectStore>> store = ObjectStore::Open(options_);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  Source OpenObject(ObjectStore& store) {
    absl::StatusOr<Source> source = store.OpenObject(server_.url() + "/c4");
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }

  absl::Status ReadBlock(const Source& source, size_t block) {
    std::string out(kBlockBytes, '\0');
    const absl::Status status = source->Read(block * kBlockBytes, out.size(), &out[0]);
    if (status.ok()) {
      EXPECT_EQ(out, std::string(kBlockBytes, 'x'));
    }
    return status;
  }

  ObjectServer server_;
  ObjectStore::Options options_;
};

TEST_F(InterruptedReadTest, ATransferThatTakesTooLongIsAFailedTry) {
  options_.try_limit = absl::Milliseconds(200);
  const std::shared_ptr<ObjectStore> store = Store();
  const Source source = OpenObject(*store);
  server_.SetFault([&](const ObjectServer::Request&, int n) -> std::optional<std::string> {
    if (n > 0) return std::nullopt;
    const int64_t before = store->counters().figures().retries;
    while (store->counters().figures().retries == before) absl::SleepFor(absl::Milliseconds(1));
    return "";
  });
  ::testing::internal::CaptureStderr();
  const absl::Status status = ReadBlock(source, 1);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(status.ok()) << status;
  // And not because too few bytes came for half a minute.
  EXPECT_TRUE(absl::StrContains(said, "timed out after")) << said;
  server_.SetFault(nullptr);
}

}  // namespace
}  // namespace paceline
