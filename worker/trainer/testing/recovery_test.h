// A fixture for tests with real trainer processes that lose ranks and continue.
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
  // A job that recovers and exports its parameters under this name; `changes` as in Spec. Each step
  // of its second half takes 0.3 s until Release, so that it does not end before the disturbance.
  v1::JobSpec RecoveringSpec(int ranks, const std::string& name, const std::string& changes,
                             int spares = 0) const;
  // The same with 30 ms for each step until Release. For planned changes, which are agreed on for a
  // step about a second ahead at the current pace.
  v1::JobSpec EvenSpec(int ranks, const std::string& name, const std::string& changes,
                       int spares = 0) const;

  // Runs the job without a disturbance.
  std::unique_ptr<FakeDaemon> RunUndisturbed(int ranks, const std::string& changes);

  static void WaitUntilReady(FakeDaemon& daemon, int number);
  // Waits until a trainer has done `steps` steps.
  static void WaitForSteps(FakeDaemon& daemon, int number, uint64_t steps);
  // Waits until all members of the newest generation train in it.
  static void WaitUntilRendezvous(FakeDaemon& daemon);
  // Lets the job run at full pace. WaitForSuccess also does that.
  void Release() const;
  // Waits until these trainers have exited with 0.
  void WaitForSuccess(FakeDaemon& daemon, const std::vector<int>& numbers) const;
  // Waits until the trainer has ended in any way.
  static void WaitForEnd(FakeDaemon& daemon, int number);

  // A trainer's losses by steps done, from its log.
  static std::map<int64_t, std::string> Losses(const FakeDaemon& daemon, int number);

  // Expects these trainers (-1: none) to show the losses of ranks 0, 1, ... of the undisturbed job,
  // step for step, each from its first step on, and to export the same bytes. `exporting`: each how
  // many-th rank exports something.
  void ExpectSame(const FakeDaemon& undisturbed, const FakeDaemon& daemon,
                  const std::vector<int>& numbers, const std::string& name,
                  int exporting = 1) const;

  // Path of the file that releases the job.
  std::string Released() const;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_RECOVERY_TEST_H_
