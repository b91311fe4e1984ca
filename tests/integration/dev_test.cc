// `paceline dev` and the verbs that a first user types, against real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/dev/dev_dir.h"
#include "tests/integration/new_folder.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kJob[] = R"(name: forever
ranks: 2
threads_per_rank: 1
model: {kind: mlp, hidden: [8]}
data: {train: digits-train.shard}
batch_per_rank: 4
steps: 100000000
optimizer: {kind: sgd, learning_rate: 0.01}
)";

class DevTest : public ::testing::Test {
 protected:
  DevTest() {
    directory_ = NewFolder();
    setenv("PACELINE_DEV_DIR", (directory_ + "/dev").c_str(), 1);
    setenv("PACELINE_CONFIG", (directory_ + "/config.yaml").c_str(), 1);
    unsetenv("PACELINE_SERVER");
    unsetenv("PACELINE_CONTEXT");
  }
  ~DevTest() override {
    Paceline({"dev", "down", "--purge"});
    EXPECT_THAT(ProcessesMentioning(directory_), IsEmpty());
    EXPECT_FALSE(HasSharedMemory());
  }

  Finished Paceline(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), Program("paceline"));
    return RunToEnd(arguments);
  }
  // Starts a job that does not end by itself, and waits until it trains.
  nlohmann::json StartJob() {
    WriteJobFile();
    EXPECT_EQ(Paceline({"submit", directory_ + "/job.yaml"}).exit_code, 0);
    nlohmann::json job;
    EXPECT_TRUE(Eventually([&] {
      job = nlohmann::json::parse(Paceline({"job", "describe", "forever", "-o", "json"}).output,
                                  nullptr, false);
      return !job.is_discarded() && job.value("state", "") == "RUNNING";
    })) << Paceline({"job", "describe", "forever"}).output;
    return job;
  }
  void WriteJobFile();
  bool HasSharedMemory() const {
    return std::filesystem::exists(DevDirAt(directory_ + "/dev").RuntimeDir());
  }
  // Ends controller and workers with SIGKILL; returns how many there were.
  int KillDaemons();

  std::string directory_;
};

void DevTest::WriteJobFile() {
  // A CSV like the one of the digits: 64 pixels of 0 to 16 and the label.
  std::string csv;
  for (int i = 0; i < 100; ++i) {
    for (int p = 0; p < 64; ++p) csv += std::to_string((i * 7 + p) % 17) + ",";
    csv += std::to_string(i % 10) + "\n";
  }
  const std::string path = directory_ + "/digits.csv";
  FILE* file = fopen(path.c_str(), "w");
  fputs(csv.c_str(), file);
  fclose(file);
  const Finished imported =
      Paceline({"data", "import-digits", "--csv", path, "--out", directory_, "--size", "8"});
  ASSERT_EQ(imported.exit_code, 0) << imported.output;
  file = fopen((directory_ + "/job.yaml").c_str(), "w");
  fputs(kJob, file);
  fclose(file);
}

int DevTest::KillDaemons() {
  int killed = 0;
  for (const pid_t pid : ProcessesMentioning(directory_ + "/dev")) {
    const std::string command = ReadFile("/proc/" + std::to_string(pid) + "/cmdline");
    if (command.find("paceline-worker") == std::string::npos &&
        command.find("paceline-controller") == std::string::npos) {
      continue;
    }
    kill(pid, SIGKILL);
    EXPECT_TRUE(Eventually([pid] { return kill(pid, 0) != 0; }));
    ++killed;
  }
  return killed;
}

// A network whose only address is ::1.
TEST_F(DevTest, ComesUpWithoutIpv4) {
  const std::string cli = Program("paceline");
  const Finished all = RunToEnd(
      {"/usr/bin/unshare", "--net", "/bin/sh", "-ec",
       absl::StrCat("ip link set lo up; ip -4 addr flush dev lo; [ -e /proc/net/if_inet6 ] || "
                    "exit 77; ",
                    cli, " dev up --workers 1; ", cli, " node list; ", cli, " dev down --purge")});
  if (all.exit_code == 77) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_EQ(all.exit_code, 0) << all.output;
  EXPECT_THAT(all.output, HasSubstr("http://[::1]:"));
  EXPECT_THAT(all.output, HasSubstr("w0    READY"));
}

TEST_F(DevTest, UpShowsItsNodesAndDownLeavesNothing) {
  const Finished up = Paceline({"dev", "up", "--workers", "2", "--slots", "1"});
  ASSERT_EQ(up.exit_code, 0) << up.output;
  const Finished nodes = Paceline({"node", "list"});
  EXPECT_EQ(nodes.exit_code, 0) << nodes.output;
  EXPECT_THAT(nodes.output, HasSubstr("READY"));
  EXPECT_TRUE(HasSharedMemory());
  EXPECT_EQ(Paceline({"dev", "status"}).exit_code, 0);
  EXPECT_EQ(Paceline({"dev", "up", "--workers", "2", "--slots", "1"}).exit_code, 0) << "again";
  const Finished down = Paceline({"dev", "down"});
  EXPECT_EQ(down.exit_code, 0) << down.output;
  EXPECT_THAT(ProcessesMentioning(directory_), IsEmpty());
  EXPECT_FALSE(HasSharedMemory());
  EXPECT_EQ(Paceline({"dev", "down"}).exit_code, 0) << "twice is fine";
}

TEST_F(DevTest, DownEndsRunningJobs) {
  ASSERT_EQ(Paceline({"dev", "up", "--workers", "2", "--slots", "1"}).exit_code, 0);
  StartJob();
  const Finished down = Paceline({"dev", "down"});
  EXPECT_EQ(down.exit_code, 0) << down.output;
  EXPECT_THAT(ProcessesMentioning(directory_), IsEmpty());
}

TEST_F(DevTest, DownFindsTheTrainersOfDaemonsThatWereKilled) {
  ASSERT_EQ(Paceline({"dev", "up", "--workers", "2", "--slots", "1"}).exit_code, 0);
  StartJob();
  EXPECT_EQ(KillDaemons(), 3);
  const Finished down = Paceline({"dev", "down"});
  EXPECT_EQ(down.exit_code, 0) << down.output;
  // One that a daemon was just starting ends by itself, a moment later.
  EXPECT_TRUE(Eventually([&] { return ProcessesMentioning(directory_).empty(); }));
  EXPECT_FALSE(HasSharedMemory());
}

TEST_F(DevTest, UpBringsBackWhatDied) {
  ASSERT_EQ(Paceline({"dev", "up", "--workers", "1", "--slots", "2"}).exit_code, 0);
  const nlohmann::json before = StartJob();
  EXPECT_EQ(KillDaemons(), 2);
  ASSERT_EQ(Paceline({"dev", "up", "--workers", "1", "--slots", "2"}).exit_code, 0);
  EXPECT_TRUE(Eventually([&] {
    const auto job = nlohmann::json::parse(
        Paceline({"job", "describe", "forever", "-o", "json"}).output, nullptr, false);
    return !job.is_discarded() && job.value("state", "") == "RUNNING" &&
           job["ranks"][0]["pid"] == before["ranks"][0]["pid"] &&
           std::stoll(job["progress"]["step"].get<std::string>()) >
               std::stoll(before["progress"].value("step", "0"));
  }));
}

TEST_F(DevTest, WithoutAServerTheErrorSaysWhatToDo) {
  const Finished unknown = Paceline({"--timeout", "1", "node", "list"});
  EXPECT_EQ(unknown.exit_code, 5) << unknown.output;
  EXPECT_THAT(unknown.output, HasSubstr("`paceline dev up` starts such a cluster"));
  const Finished finished = Paceline({"--plaintext", "--timeout", "1", "node", "list"});
  EXPECT_EQ(finished.exit_code, 6) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("127.0.0.1:7450"));
}

}  // namespace
}  // namespace paceline
