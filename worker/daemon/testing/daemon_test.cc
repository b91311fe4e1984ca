#include "worker/daemon/testing/daemon_test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kDeadline = absl::Seconds(30);

}  // namespace

bool Eventually(const std::function<bool()>& condition) {
  const absl::Time give_up = absl::Now() + kDeadline;
  while (!condition()) {
    if (absl::Now() > give_up) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

size_t Count(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

v1::TrainerPlan Plan(int rank, int64_t steps) {
  v1::TrainerPlan plan;
  plan.mutable_id()->set_job_id(kJob);
  plan.mutable_id()->set_generation(1);
  plan.mutable_id()->set_rank(rank);
  plan.mutable_spec()->set_name("digits");
  plan.mutable_spec()->set_steps(steps);
  plan.set_world_size(2);
  plan.set_slot(rank);
  plan.set_store_address("127.0.0.1:5000");
  return plan;
}

v1::TrainerPlan FailingPlan(int64_t step, v1::FaultKind kind) {
  v1::TrainerPlan plan = Plan(0, 1000000);
  plan.mutable_spec()->set_allow_chaos(true);
  v1::Fault& fault = *plan.mutable_spec()->add_chaos();
  fault.set_step(step);
  fault.set_kind(kind);
  return plan;
}

v1::NodePlan NodePlanOf(const std::vector<v1::TrainerPlan>& trainers) {
  v1::NodePlan plan;
  for (const v1::TrainerPlan& trainer : trainers) *plan.add_trainers() = trainer;
  return plan;
}

std::function<bool(const v1::NodeReport&)> AllIn(v1::TrainerState state) {
  return [state](const v1::NodeReport& report) {
    return report.trainers_size() > 0 &&
           std::all_of(report.trainers().begin(), report.trainers().end(),
                       [state](const auto& trainer) { return trainer.state() == state; });
  };
}

std::function<bool(const v1::NodeReport&)> AllBeyond(int64_t step) {
  return [step](const v1::NodeReport& report) {
    return AllIn(v1::TRAINER_RUNNING)(report) &&
           std::all_of(report.trainers().begin(), report.trainers().end(),
                       [step](const auto& t) { return t.pid() > 0 && t.progress().step() > step; });
  };
}

DaemonTest::DaemonTest() {
  root_ = "/tmp/daemon_test.XXXXXX";
  EXPECT_NE(::mkdtemp(root_.data()), nullptr);
}

DaemonTest::~DaemonTest() {
  if (daemon_ > 0) End(SIGKILL);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root_ + "/state/trainers", error)) {
    const std::string dir = entry.path().string();
    EXPECT_TRUE(Eventually([&] {
      const auto processes = ReadTrainerLock(dir);
      if (processes.ok() && processes->shim > 0) ::kill(processes->shim, SIGUSR1);
      return processes.ok() && !processes->alive;
    }));
  }
  fs::remove_all(root_, error);
}

std::vector<std::string> DaemonTest::Arguments() const {
  return {"worker/daemon/paceline-worker",
          "--controller",
          controller_address_,
          "--plaintext",
          "--name",
          "node-a",
          "--state-dir",
          root_ + "/state",
          "--runtime-dir",
          root_ + "/run",
          "--trainer",
          "worker/daemon/testing/fake_trainer",
          "--shim",
          "worker/shim/paceline-shim",
          "--log-segment-bytes",
          "2000",
          "--log-segments",
          "1000",
          "--address-file",
          root_ + "/address"};
}

pid_t DaemonTest::Spawn(std::vector<std::string> arguments, const std::string& log) const {
  for (std::string& argument : arguments) {
    if (argument.rfind("worker/", 0) == 0) argument = fs::absolute(argument).string();
  }
  const pid_t child = ::fork();
  if (child != 0) return child;
  const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(fd, 2);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  ::_exit(127);
}

void DaemonTest::StartDaemon() { daemon_ = Spawn(Arguments(), root_ + "/log"); }

int DaemonTest::End(int signal) {
  ::kill(daemon_, signal);
  int status = 0;
  EXPECT_EQ(::waitpid(daemon_, &status, 0), daemon_);
  daemon_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::pair<int, std::string> DaemonTest::RunToEnd(const std::vector<std::string>& arguments) const {
  const std::string log = root_ + "/other_log";
  int status = 0;
  ::waitpid(Spawn(arguments, log), &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Contents(log)};
}

void DaemonTest::WaitForLog(const std::string& word, size_t count) {
  EXPECT_TRUE(Eventually([&] { return Count(Contents(root_ + "/log"), word) >= count; }))
      << word << " in\n"
      << Contents(root_ + "/log");
}

v1::TrainerReport DaemonTest::RunOne(const v1::TrainerPlan& plan) {
  controller_->SetPlan(NodePlanOf({plan}));
  return controller_->WaitForReport(AllIn(v1::TRAINER_EXITED)).trainers(0);
}

std::string DaemonTest::TrainerDir(int rank) const {
  return absl::StrCat(root_, "/state/trainers/", kJob, ".1.", rank);
}

std::string DaemonTest::OwnDir(int rank) const {
  return absl::StrCat(TrainerDir(rank), "/", kJob, ".1.", rank);
}

bool DaemonTest::RingExists(int rank) const {
  return fs::exists(absl::StrCat(root_, "/run/", kJob, ".1.", rank, ".ring"));
}

}  // namespace paceline
