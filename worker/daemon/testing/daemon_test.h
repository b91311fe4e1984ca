// A fixture that runs the real daemon and shim with a fake trainer and a fake controller.
#ifndef WORKER_DAEMON_TESTING_DAEMON_TEST_H_
#define WORKER_DAEMON_TESTING_DAEMON_TEST_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/worker.pb.h"
#include "worker/daemon/testing/fake_controller.h"

namespace paceline {

inline constexpr char kJob[] = "job-0123456789ab";

// Polls `condition`, for things that send no notice. False when it does not become true in time.
bool Eventually(const std::function<bool()>& condition);

std::string Contents(const std::string& path);
// Counts occurrences of `word` in `text`.
size_t Count(const std::string& text, const std::string& word);

// A plan for a trainer of kJob's first generation; rank 0 fails before its first step.
v1::TrainerPlan Plan(int rank, int64_t steps);
v1::TrainerPlan FailingPlan(int64_t step, v1::FaultKind kind);
v1::NodePlan NodePlanOf(const std::vector<v1::TrainerPlan>& trainers);

// True when there is a trainer and all are in `state`.
std::function<bool(const v1::NodeReport&)> AllIn(v1::TrainerState state);
// True when all trainers are running and beyond `step`.
std::function<bool(const v1::NodeReport&)> AllBeyond(int64_t step);

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest();
  // Checks that nothing is left behind.
  ~DaemonTest() override;

  std::vector<std::string> Arguments() const;
  pid_t Spawn(std::vector<std::string> arguments, const std::string& log) const;
  void StartDaemon();
  // Ends the daemon with `signal`; returns its exit code.
  int End(int signal);
  // Runs the daemon with `arguments` until it exits; returns its exit code and output.
  std::pair<int, std::string> RunToEnd(const std::vector<std::string>& arguments) const;

  // Waits until the daemon's log contains `word` at least `count` times.
  void WaitForLog(const std::string& word, size_t count = 1);
  // Runs one trainer to its end, which must come within the deadline.
  v1::TrainerReport RunOne(const v1::TrainerPlan& plan);
  // The dir of a trainer of the first generation.
  std::string TrainerDir(int rank) const;
  // The directory inside it where the trainer writes.
  std::string OwnDir(int rank) const;
  bool RingExists(int rank) const;

  std::string root_;
  std::unique_ptr<FakeController> controller_ = std::make_unique<FakeController>();
  std::string controller_address_ = controller_->address();
  pid_t daemon_ = -1;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TESTING_DAEMON_TEST_H_
