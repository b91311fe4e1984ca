// Backups over a real socket, and a controller that starts from one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/checkpoint/checksum.h"
#include "controller/server.h"
#include "controller/store/sqlite_store.h"
#include "controller/store/state_file.h"
#include "controller/testing/running_server.h"
#include "proto/admin.grpc.pb.h"

namespace paceline {
namespace {

struct Fetched {
  std::string bytes;
  v1::BackupEnd end;
  grpc::Status status;
};

Fetched Fetch(const RunningServer& server) {
  Fetched fetched;
  grpc::ClientContext context;
  const auto stub = v1::AdminService::NewStub(server.Channel());
  const auto reader = stub->Backup(&context, {});
  v1::BackupChunk chunk;
  while (reader->Read(&chunk)) {
    fetched.bytes += chunk.data();
    if (chunk.has_end()) fetched.end = chunk.end();
  }
  fetched.status = reader->Finish();
  return fetched;
}

// Adds a record that no controller reads.
void AddLargeRecord(const std::string& directory, size_t bytes) {
  std::filesystem::create_directories(directory);
  auto store = SqliteStore::Open(absl::StrCat(directory, "/", kStateFileName));
  ASSERT_TRUE(store.ok()) << store.status();
  std::string value;
  for (size_t i = 0; value.size() < bytes; ++i) absl::StrAppend(&value, i, " ");
  ASSERT_TRUE((*store)->Commit({{{"test/large", value}}, {}}).ok());
}

TEST(BackupTest, RunningControllersStateComesWholeAndStartsAnother) {
  const std::string directory = NewDirectory();
  AddLargeRecord(directory, 3 << 20);
  std::string backup;
  {
    const RunningServer server(directory);
    const Fetched fetched = Fetch(server);
    ASSERT_TRUE(fetched.status.ok()) << fetched.status.error_message();
    EXPECT_GT(fetched.bytes.size(), 3u << 20);
    EXPECT_EQ(fetched.end.bytes(), static_cast<int64_t>(fetched.bytes.size()));
    EXPECT_EQ(fetched.end.checksum(), ChecksumText(ChecksumOf(fetched.bytes)));
    backup = directory + "/../" + std::filesystem::path(directory).filename().string() + ".db";
    std::ofstream(backup, std::ios::binary) << fetched.bytes;
    EXPECT_FALSE(std::filesystem::exists(directory + "/state.db.backup"));
    // The controller continues, and makes another backup.
    EXPECT_TRUE(Fetch(server).status.ok());
  }
  EXPECT_TRUE(CheckStateFile(backup).ok()) << CheckStateFile(backup);
  const std::string other = NewDirectory();
  ASSERT_TRUE(RestoreState(backup, other, /*force=*/false, absl::Now()).ok());
  const RunningServer server(other);
  EXPECT_TRUE(server.failure().status.ok()) << server.failure().status;
  EXPECT_TRUE(Fetch(server).status.ok());
}

TEST(BackupTest, ClientThatGoesAwayLeavesNothingBehind) {
  const std::string directory = NewDirectory();
  AddLargeRecord(directory, 8 << 20);
  const RunningServer server(directory);
  const auto stub = v1::AdminService::NewStub(server.Channel());
  {
    grpc::ClientContext context;
    const auto reader = stub->Backup(&context, {});
    v1::BackupChunk chunk;
    ASSERT_TRUE(reader->Read(&chunk));
    // While the client reads no further, it only holds up other backups.
    const Fetched refused = Fetch(server);
    EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    context.TryCancel();
    EXPECT_FALSE(reader->Finish().ok());
  }
  // The controller notices with a delay.
  Fetched fetched;
  do {
    fetched = Fetch(server);
  } while (fetched.status.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(fetched.status.ok()) << fetched.status.error_message();
}

TEST(BackupTest, ClientThatNeverReadsLosesItsStreamAndOthersGetTheirTurn) {
  const std::string directory = NewDirectory();
  // More than gRPC buffers for a client that never reads.
  AddLargeRecord(directory, 16 << 20);
  ServerOptions options{"127.0.0.1:0", "127.0.0.1:0", directory, directory + "/address", ""};
  options.plaintext = true;
  options.limits.stream_patience = absl::Seconds(2);
  const RunningServer server(options);
  ASSERT_TRUE(server.failure().status.ok()) << server.failure().status;
  const auto stub = v1::AdminService::NewStub(server.Channel());
  grpc::ClientContext context;
  const auto silent = stub->Backup(&context, {});
  v1::BackupChunk chunk;
  ASSERT_TRUE(silent->Read(&chunk));
  Fetched fetched;
  do {
    fetched = Fetch(server);
  } while (fetched.status.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(fetched.status.ok()) << fetched.status.error_message();
  // Reads what gRPC has buffered; the end is not among it.
  while (silent->Read(&chunk)) EXPECT_FALSE(chunk.has_end());
  EXPECT_EQ(silent->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(BackupTest, WhatAKilledControllerLeftIsRemoved) {
  const std::string directory = NewDirectory();
  std::ofstream(directory + "/state.db.backup") << "half a copy";
  const RunningServer server(directory);
  EXPECT_FALSE(std::filesystem::exists(directory + "/state.db.backup"));
}

}  // namespace
}  // namespace paceline
