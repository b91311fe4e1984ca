// The daemons are shell scripts here, which take their lock and write their address file as the
// real ones do.
#include "cli/dev/dev_cluster.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/dev/dev_trainers.h"
#include "cli/dev/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kLong = absl::Seconds(30);

// Understands --state-dir and --address-file; prints its arguments.
constexpr char kDaemon[] = R"(#!/bin/bash
echo "$0 $*"
while (($# > 1)); do
  case $1 in
    --state-dir) state=$2 ;;
    --address-file) address=$2 ;;
    --listen) listen=$2 ;;
  esac
  shift
done
mkdir -p "$state"
exec 9>>"$state/lock"
flock -n 9 || exit 15
echo $$ > "$state/lock"
echo "{\"pid\": $$, \"grpc\": \"${listen/:0/:7001}\", \"http\": \"127.0.0.1:7002\"}" > "$address.new"
mv "$address.new" "$address"
trap 'exit 0' TERM
while :; do sleep 0.05 9>&-; done
)";

class DevClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    bin_ = root_ + "-bin";
    fs::create_directories(bin_);
    WriteProgram("paceline-controller", kDaemon);
    WriteProgram("paceline-worker", kDaemon);
  }

  void TearDown() override {
    auto cluster = DevCluster::Open(Dir());
    ASSERT_TRUE(cluster.ok());
    EXPECT_TRUE(cluster->Stop(absl::Seconds(1)).ok());
  }

  void WriteProgram(const std::string& name, const std::string& text) {
    std::ofstream(bin_ + "/" + name) << text;
    chmod((bin_ + "/" + name).c_str(), 0700);
  }

  DevDir Dir() const { return DevDirAt(root_); }

  absl::StatusOr<std::vector<std::string>> Start(DevSettings settings) {
    auto cluster = DevCluster::Open(Dir());
    if (!cluster.ok()) return cluster.status();
    return cluster->Start(settings, bin_, kLong);
  }

  // Ends a daemon as a crash would.
  void Crash(const DaemonPlace& place) {
    const pid_t pid = place.Pid();
    ASSERT_GT(pid, 0);
    kill(pid, SIGKILL);
    ASSERT_TRUE(WaitUntil([&] { return place.Pid() == 0; }, kLong));
  }

  std::string root_;
  std::string bin_;
};

TEST_F(DevClusterTest, StartsTheControllerAndTheWorkers) {
  const auto started = Start({2, 3});
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_THAT(*started, ElementsAre("controller", "w0", "w1"));
  EXPECT_EQ(RunningDevController(Dir()), "127.0.0.1:7001");
  const std::string log = LastLines(WorkerPlace(Dir(), "w1").log_file, 1);
  EXPECT_THAT(log, HasSubstr("--controller 127.0.0.1:7001 --name w1"));
  EXPECT_THAT(log, HasSubstr("--slots 3"));
  EXPECT_THAT(log, HasSubstr(Dir().RuntimeDir() + "/w1"));
}

TEST_F(DevClusterTest, StartsOnlyWhatIsMissingAndTheControllerOnItsOldPort) {
  ASSERT_TRUE(Start({2, 2}).ok());
  EXPECT_THAT(*Start({2, 2}), IsEmpty());
  const pid_t worker = WorkerPlace(Dir(), "w0").Pid();
  Crash(ControllerPlace(Dir()));
  Crash(WorkerPlace(Dir(), "w1"));
  EXPECT_THAT(*Start({2, 2}), ElementsAre("controller", "w1"));
  EXPECT_EQ(WorkerPlace(Dir(), "w0").Pid(), worker);
  EXPECT_THAT(LastLines(ControllerPlace(Dir()).log_file, 1), HasSubstr("--listen 127.0.0.1:7001"));
}

TEST_F(DevClusterTest, RunningWorkersKeepTheirSlots) {
  ASSERT_TRUE(Start({1, 2}).ok());
  EXPECT_EQ(Start({1, 4}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DevClusterTest, DaemonThatEndsAtOnceIsToldWithItsLog) {
  WriteProgram("paceline-controller", "#!/bin/bash\necho 'no such luck' >&2\nexit 13\n");
  const absl::Status status = Start({1, 2}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("controller ended at once: exit code 13"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no such luck"));
}

TEST_F(DevClusterTest, StopEndsEverythingAndLeavesNothingInMemory) {
  ASSERT_TRUE(Start({2, 2}).ok());
  ASSERT_TRUE(fs::exists(Dir().RuntimeDir()));
  auto cluster = DevCluster::Open(Dir());
  EXPECT_EQ(cluster->Stop(kLong).value_or(-1), 3);
  EXPECT_EQ(ControllerPlace(Dir()).Pid(), 0);
  EXPECT_EQ(WorkerPlace(Dir(), "w1").Pid(), 0);
  EXPECT_FALSE(fs::exists(Dir().RuntimeDir()));
  EXPECT_TRUE(fs::exists(root_ + "/controller"));
  EXPECT_TRUE(cluster->Purge().ok());
  EXPECT_FALSE(fs::exists(root_));
}

TEST_F(DevClusterTest, StopFindsTrainersWhoseDaemonWasKilled) {
  ASSERT_TRUE(Start({1, 2}).ok());
  const DaemonPlace worker = WorkerPlace(Dir(), "w0");
  Crash(worker);
  const std::string trainer = worker.state_dir + "/trainers/job-1.1.0";
  fs::create_directories(trainer);
  // A shim that holds the lock and ignores SIGTERM.
  const auto shim = StartDetached({{"/bin/bash", "-c",
                                    absl::StrCat("exec 9>>", trainer,
                                                 "/lock; flock 9; trap '' TERM; "
                                                 "printf '%d\\n%d\\n' $$ $$ > ",
                                                 trainer,
                                                 "/lock; "
                                                 "while :; do sleep 0.05 9>&-; done")},
                                   root_ + "/shim.log",
                                   root_});
  ASSERT_TRUE(shim.ok());
  ASSERT_TRUE(WaitUntil(
      [&] {
        const auto read = ReadTrainerLock(trainer);
        return read.ok() && read->shim == *shim;
      },
      kLong));
  EXPECT_THAT(LiveTrainers(worker.state_dir), ElementsAre(trainer));
  auto cluster = DevCluster::Open(Dir());
  // The controller and the trainer.
  EXPECT_EQ(cluster->Stop(absl::Milliseconds(200)).value_or(-1), 2);
  EXPECT_THAT(LiveTrainers(worker.state_dir), IsEmpty());
}

TEST_F(DevClusterTest, TwoCommandsDoNotWorkOnOneFolder) {
  const auto first = DevCluster::Open(Dir());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(DevCluster::Open(Dir()).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace paceline
