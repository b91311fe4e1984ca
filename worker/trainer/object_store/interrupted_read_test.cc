// Reads of a store that is slow or away.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/trainer/object_store/object_store.h"
#include "worker/trainer/object_store/read_interrupt.h"
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
    options_.interrupt = interrupt_;
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

  // Reads block 1, for which the store lets it wait, and interrupts that once the server has had
  // this many requests.
  void ExpectInterrupted(const Source& source, size_t requests) {
    absl::Status status;
    std::thread reader([&] { status = ReadBlock(source, 1); });
    while (server_.requests().size() < requests) absl::SleepFor(absl::Milliseconds(1));
    {
      const ReadInterrupt::Scope scope(interrupt_.get());
      reader.join();
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), server_.url() + "/c4")) << status;
  }

  ObjectServer server_;
  const std::shared_ptr<ReadInterrupt> interrupt_ = std::make_shared<ReadInterrupt>();
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

// Without an end, it would wait for an hour.
TEST_F(InterruptedReadTest, AWaitBetweenTriesEnds) {
  options_.backoff = {absl::Hours(1), absl::Hours(1), 1.0};
  options_.patience = absl::Hours(10);
  const std::shared_ptr<ObjectStore> store = Store();
  const Source source = OpenObject(*store);
  server_.SetFault(
      [](const ObjectServer::Request&, int) { return ObjectServer::Error("503 Slow Down"); });
  ExpectInterrupted(source, 2);
  server_.SetFault(nullptr);
  // It may go on afterwards.
  const absl::Status status = ReadBlock(source, 1);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(InterruptedReadTest, ATryThatIsNotMadeIsNotCounted) {
  options_.backoff = {absl::Hours(1), absl::Hours(1), 1.0};
  options_.patience = absl::Hours(10);
  const std::shared_ptr<ObjectStore> store = Store();
  const Source source = OpenObject(*store);
  server_.SetFault(
      [](const ObjectServer::Request&, int) { return ObjectServer::Error("503 Slow Down"); });
  std::thread reader([&] { EXPECT_EQ(ReadBlock(source, 1).code(), absl::StatusCode::kCancelled); });
  while (server_.requests().size() < 2) absl::SleepFor(absl::Milliseconds(1));
  absl::SleepFor(absl::Milliseconds(50));  // Then it usually waits for its second try.
  const ReadInterrupt::Scope scope(interrupt_.get());
  reader.join();
  EXPECT_EQ(store->counters().figures().retries, 0);
  server_.SetFault(nullptr);
}

TEST_F(InterruptedReadTest, ATransferThatHangsEnds) {
  options_.try_limit = absl::Hours(1);
  const std::shared_ptr<ObjectStore> store = Store();
  const Source source = OpenObject(*store);
  absl::Notification goes_on;
  server_.SetFault([&](const ObjectServer::Request&, int) -> std::optional<std::string> {
    goes_on.WaitForNotification();
    return std::nullopt;
  });
  ExpectInterrupted(source, 2);
  EXPECT_EQ(store->counters().figures().retries, 0);
  goes_on.Notify();
  const absl::Status status = ReadBlock(source, 1);
  EXPECT_TRUE(status.ok()) << status;
  server_.SetFault(nullptr);
}

TEST_F(InterruptedReadTest, WhatIsOnTheNodeIsReadAllTheSame) {
  const std::shared_ptr<ObjectStore> store = Store();
  const Source source = OpenObject(*store);
  ASSERT_TRUE(ReadBlock(source, 0).ok());
  const size_t before = server_.requests().size();
  bool is_over = true;
  interrupt_->SetCondition([&] { return is_over; });
  EXPECT_TRUE(ReadBlock(source, 0).ok());
  EXPECT_EQ(ReadBlock(source, 1).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store->OpenObject(server_.url() + "/c4").status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(server_.requests().size(), before);
  is_over = false;
  EXPECT_TRUE(ReadBlock(source, 1).ok());
}

// Of two threads that read a block, one fetches it, and the other may wait for it: an interrupt
// that only the one has seen is no error of the other's.
TEST_F(InterruptedReadTest, AnInterruptThatHasPassedIsNotHandedOn) {
  options_.cache_directory = "";
  const std::shared_ptr<ObjectStore> store = Store();
  for (int round = 0; round < 100; ++round) {
    const Source source = OpenObject(*store);
    std::atomic<int> seen{0};
    interrupt_->SetCondition([&] { return seen++ == 0; });
    std::atomic<int> cancelled{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([&] {
        const absl::Status status = ReadBlock(source, 1);
        if (absl::IsCancelled(status)) ++cancelled;
        EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
      });
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(cancelled, 1);
    interrupt_->SetCondition(nullptr);
  }
}

}  // namespace
}  // namespace paceline
