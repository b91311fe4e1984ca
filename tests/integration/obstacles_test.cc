// Obstacles at a daemon's start or while it runs: each gives one clear line and its own exit code,
// and nothing is overwritten.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/exit_codes.h"
#include "proto/job.grpc.pb.h"
#include "tests/integration/new_folder.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::string> Controller(const std::string& state_dir,
                                    const std::string& listen = "127.0.0.1:0") {
  return {Program("paceline-controller"),
          "--plaintext",
          "--listen",
          listen,
          "--http",
          "127.0.0.1:0",
          "--state-dir",
          state_dir};
}

std::vector<std::string> Worker(const std::string& state_dir, const std::string& runtime_dir) {
  return {Program("paceline-worker"),
          "--plaintext",
          "--controller",
          "127.0.0.1:1",
          "--listen",
          "127.0.0.1:0",
          "--state-dir",
          state_dir,
          "--runtime-dir",
          runtime_dir};
}

// One line on standard error that is no log line, and what it says.
void ExpectOneLine(const Finished& finished, const std::string& text) {
  std::vector<std::string> lines;
  for (const auto line : absl::StrSplit(finished.output, '\n', absl::SkipEmpty())) {
    if (!absl::StartsWith(line, "20")) lines.emplace_back(line);
  }
  EXPECT_THAT(lines, SizeIs(1)) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr(text));
}

TEST(ObstaclesTest, PortInUse) {
  TestCluster cluster(/*workers=*/0);
  const Finished finished = RunToEnd(Controller(NewFolder(), cluster.server()));
  EXPECT_EQ(finished.exit_code, kExitCannotListen);
  EXPECT_THAT(finished.output, HasSubstr("cannot listen on " + cluster.server()));
}

TEST(ObstaclesTest, StateDirectoryInUse) {
  TestCluster cluster(/*workers=*/1);
  const Finished controller = RunToEnd(Controller(cluster.directory() + "/controller"));
  EXPECT_EQ(controller.exit_code, kExitStateInUse);
  ExpectOneLine(controller, "in use by process");
  const Finished worker =
      RunToEnd(Worker(cluster.WorkerFile(0, "state"), cluster.WorkerRuntime(0) + "x"));
  EXPECT_EQ(worker.exit_code, kExitStateInUse);
  ExpectOneLine(worker, absl::StrCat(cluster.WorkerPid(0)));
}

TEST(ObstaclesTest, StateDirectoryThatCannotBeMade) {
  const std::string file = NewFolder() + "/file";
  std::ofstream(file) << "x";
  for (const Finished& finished :
       {RunToEnd(Controller(file + "/state")), RunToEnd(Worker(file + "/state", NewFolder()))}) {
    EXPECT_EQ(finished.exit_code, kExitStateNotWritable);
    ExpectOneLine(finished, file);
  }
}

TEST(ObstaclesTest, TooFewOpenFiles) {
  for (const std::vector<std::string>& daemon :
       {Controller(NewFolder()), Worker(NewFolder(), NewFolder())}) {
    std::vector<std::string> limited = {"/usr/bin/prlimit", "--nofile=32"};
    limited.insert(limited.end(), daemon.begin(), daemon.end());
    const Finished finished = RunToEnd(limited);
    EXPECT_EQ(finished.exit_code, kExitFailure);
    ExpectOneLine(finished, "may open 32 files and needs 256 at least");
  }
}

TEST(ObstaclesTest, DatabaseFromANewerVersion) {
  const std::string directory = NewFolder();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((directory + "/state.db").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db,
                         "PRAGMA application_id = 1346587726; PRAGMA user_version = 99; "
                         "CREATE TABLE state (key TEXT)",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(db);
  const std::string before = ReadFile(directory + "/state.db");
  const Finished finished = RunToEnd(Controller(directory));
  EXPECT_EQ(finished.exit_code, kExitStateFromNewer);
  ExpectOneLine(finished, "newer version");
  EXPECT_EQ(ReadFile(directory + "/state.db"), before);
}

TEST(ObstaclesTest, DamagedDatabase) {
  const std::string directory = NewFolder();
  std::ofstream(directory + "/state.db") << std::string(10000, 'x');
  const Finished finished = RunToEnd(Controller(directory));
  EXPECT_EQ(finished.exit_code, kExitStateDamaged);
  ExpectOneLine(finished, "state.db");
  EXPECT_EQ(ReadFile(directory + "/state.db"), std::string(10000, 'x'));
}

// The program under test, with `directory` on a file system of its own that holds `size`.
std::vector<std::string> OnSmallDisk(const std::string& directory, const std::string& size,
                                     const std::vector<std::string>& argv) {
  std::vector<std::string> wrapped = {
      "/usr/bin/unshare",
      "--mount",
      "/bin/sh",
      "-c",
      absl::StrCat("mount -t tmpfs -o size=", size, " tmpfs ", directory, " && exec \"$@\""),
      "sh"};
  wrapped.insert(wrapped.end(), argv.begin(), argv.end());
  return wrapped;
}

TEST(ObstaclesTest, DiskFullAtTheStart) {
  const std::string directory = NewFolder();
  const Finished controller =
      RunToEnd(OnSmallDisk(directory, "8k", Controller(directory + "/state")));
  EXPECT_EQ(controller.exit_code, kExitNoSpace) << controller.output;
  ExpectOneLine(controller, directory);
}

// As above, but a file takes up most of the disk: `argv` runs until it ends by itself; then the
// file is removed, and `argv` runs again. The file `ended` then has the exit code of the first run.
std::vector<std::string> OnDiskThatIsCleared(const std::string& directory, const std::string& ended,
                                             const std::vector<std::string>& argv) {
  std::vector<std::string> wrapped = OnSmallDisk(directory, "8m", argv);
  const std::string run = "exec \"$@\"";
  std::string& script = wrapped[4];
  script.replace(
      script.size() - run.size(), run.size(),
      absl::StrCat("head -c 7M /dev/zero > ", directory, "/filler && { \"$@\"; ", "code=$?; rm ",
                   directory, "/filler; echo $code > ", ended, "; ", run, "; }"));
  return wrapped;
}

TEST(ObstaclesTest, DiskThatFillsUpWhileTheControllerRuns) {
  const std::string disk = NewFolder();
  const std::string files = NewFolder();
  std::vector<std::string> argv = Controller(disk + "/state");
  argv.insert(argv.end(), {"--address-file", files + "/address"});
  Process controller(OnDiskThatIsCleared(disk, files + "/ended", argv), files + "/log");
  std::string address;
  int pid = 0;
  // Another process than before.
  const auto serves = [&] {
    const auto json = nlohmann::json::parse(ReadFile(files + "/address"), nullptr, false);
    if (json.is_discarded() || json["pid"] == pid) return false;
    pid = json["pid"].get<int>();
    address = json["grpc"].get<std::string>();
    return true;
  };
  ASSERT_TRUE(Eventually(serves)) << ReadFile(files + "/log");
  std::string runtime = "/dev/shm/plXXXXXX";
  mkdtemp(runtime.data());
  std::vector<std::string> worker_argv = Worker(files + "/worker", runtime);
  worker_argv[3] = address;
  Process worker(worker_argv, files + "/worker.log");

  // Each of these jobs takes some 30 KB; they wait in the queue, as none can be placed.
  const auto jobs =
      v1::JobService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  v1::SubmitJobRequest request;
  v1::JobSpec& spec = *request.mutable_spec();
  spec.set_name("large");
  spec.mutable_model()->mutable_mlp()->add_hidden(8);
  spec.mutable_data()->set_train("/nowhere");
  spec.set_steps(10000);
  spec.mutable_optimizer()->mutable_sgd();
  spec.mutable_optimizer()->set_learning_rate(0.1);
  for (int step = 0; step < 3000; ++step) {
    spec.set_allow_chaos(true);
    spec.add_chaos()->set_step(step);
    spec.mutable_chaos(step)->set_kind(v1::SLEEP);
  }
  int accepted = 0;
  EXPECT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    request.set_request_id(absl::StrCat("request-", accepted));
    v1::Job job;
    const grpc::Status status = jobs->Submit(&context, request, &job);
    accepted += status.ok() ? 1 : 0;
    return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
           status.error_code() == grpc::StatusCode::CANCELLED;
  }));
  EXPECT_GT(accepted, 0);
  EXPECT_TRUE(Eventually([&] { return !ReadFile(files + "/ended").empty(); }));
  EXPECT_EQ(ReadFile(files + "/ended"), absl::StrCat(kExitNoSpace, "\n"))
      << ReadFile(files + "/log");
  EXPECT_THAT(ReadFile(files + "/log"), HasSubstr("cannot store state: " + disk));
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.Wait(), 0);

  // There is space again: all accepted jobs exist, and further ones are accepted.
  ASSERT_TRUE(Eventually(serves)) << ReadFile(files + "/log");
  const auto again =
      v1::JobService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::ListJobsRequest list;
  list.set_page_size(1000);
  v1::ListJobsResponse listed;
  ASSERT_TRUE(again->List(&context, list, &listed).ok());
  EXPECT_GE(listed.jobs_size(), accepted);
  EXPECT_LE(listed.jobs_size(), accepted + 1) << "the one that was being stored";
  controller.Signal(SIGTERM);
  EXPECT_EQ(controller.Wait(), 0) << ReadFile(files + "/log");
  std::filesystem::remove_all(runtime);
}

TEST(ObstaclesTest, WrongUsageHasItsOwnCode) {
  for (const char* program : {"paceline-controller", "paceline-worker"}) {
    EXPECT_EQ(RunToEnd({Program(program), "--no-such-flag"}).exit_code, kExitUsage) << program;
    const Finished help = RunToEnd({Program(program), "--help"});
    EXPECT_EQ(help.exit_code, kExitOk);
    EXPECT_THAT(help.output, HasSubstr("--state-dir"));
  }
}

}  // namespace
}  // namespace paceline
