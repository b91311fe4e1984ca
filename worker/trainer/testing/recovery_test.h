// A fixture for tests of real trainer processes that lose ranks and go on.
#ifndef WORKER_TRAINER_TESTING_RECOVERY_TEST_H_
#define WORKER_TRAINER_TESTING_RECOVERY_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/trainer_test.h"

namespace paceline {

class RecoveryTest : public TrainerTest {
 protected:
  // A job that recovers and exports its parameters under this name; `changes` as in Spec. So that
  // it is not over before it was disturbed, it takes 0.3 s for each step of its second half, until
  // Release.
  v1::JobSpec RecoveringSpec(int ranks, const std::string& name, const std::string& changes,
                             int spares = 0) const;
  // The same with 30 ms for each step until Release. For planned changes: they are agreed on for a
  // step that is a second ahead at the pace so far.
  v1::JobSpec EvenSpec(int ranks, const std::string& name, const std::string& changes,
                       int spares = 0) const;

  // Runs it without a disturbance.
  std::unique_ptr<FakeDaemon> RunUndisturbed(int ranks, const std::string& changes);

  static void WaitUntilReady(FakeDaemon& daemon, int number);
  // Waits until a trainer has done so many steps.
  static void WaitForSteps(FakeDaemon& daemon, int number, uint64_t steps);
  // Waits until all members of the newest generation train in it.
  static void WaitUntilMet(FakeDaemon& daemon);
  // The job goes on at full pace. WaitForSuccess does that, too.
  void Release() const;
  // Waits until these have exited with 0.
  void WaitForSuccess(FakeDaemon& daemon, const std::vector<int>& numbers) const;
  // Waits until it has ended, in whatever way.
  static void WaitForEnd(FakeDaemon& daemon, int number);

  // Loss of a trainer by steps done, as its log has it.
  static std::map<int64_t, std::string> Losses(const FakeDaemon& daemon, int number);

  // These trainers (-1: none) show the losses of ranks 0, 1, ... of the undisturbed job, step for
  // step, each from the first step that it has, and export the same bytes.
  void ExpectSame(const FakeDaemon& undisturbed, const FakeDaemon& daemon,
                  const std::vector<int>& numbers, const std::string& name) const;

 private:
  // The file that releases the job.
  std::string Released() const;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_RECOVERY_TEST_H_
