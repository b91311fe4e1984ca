// A fixture for tests of the real daemon and shim with a fake trainer under a fake controller.
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

// Polls `condition`, for what nobody tells. False when it does not come true.
bool Eventually(const std::function<bool()>& condition);

std::string Contents(const std::string& path);
// How often `word` is in `text`.
size_t Count(const std::string& text, const std::string& word);

// A trainer of the first generation of kJob; rank 0, which fails before a step.
v1::TrainerPlan Plan(int rank, int64_t steps);
v1::TrainerPlan FailingPlan(int64_t step, v1::FaultKind kind);
v1::NodePlan NodePlanOf(const std::vector<v1::TrainerPlan>& trainers);

// All trainers, and at least one, are in `state`.
std::function<bool(const v1::NodeReport&)> AllIn(v1::TrainerState state);
// All run and have done more than so many steps.
std::function<bool(const v1::NodeReport&)> AllBeyond(int64_t step);

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest();
  // Nothing may be left behind, whatever the test did.
  ~DaemonTest() override;

  std::vector<std::string> Arguments() const;
  pid_t Spawn(std::vector<std::string> arguments, const std::string& log) const;
  void StartDaemon();
  // Ends the daemon with `signal`; returns its exit code.
  int End(int signal);
  // What a daemon of these arguments says before it ends, and its exit code.
  std::pair<int, std::string> RunToEnd(const std::vector<std::string>& arguments) const;

  // Waits until the daemon's log has the word so often.
  void WaitForLog(const std::string& word, size_t count = 1);
  // Lets one trainer run to its end, which it has to find within the deadline.
  v1::TrainerReport RunOne(const v1::TrainerPlan& plan);
  // Of a trainer of the first generation.
  std::string TrainerDir(int rank) const;
  // In it: where the trainer writes.
  std::string OwnDir(int rank) const;
  bool RingExists(int rank) const;

  std::string root_;
  std::unique_ptr<FakeController> controller_ = std::make_unique<FakeController>();
  std::string controller_address_ = controller_->address();
  pid_t daemon_ = -1;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TESTING_DAEMON_TEST_H_
