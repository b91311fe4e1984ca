// The planned change from one generation to the next while training goes on.
//
//   this thread    step ── step ── step ── step ── step (agreed) ── leaves, rendezvous
//   connecting     ├──── groups of the next ────┤
//   agreement                                   ├── greatest promise of all ──┤
//
// The next generation's groups are connected beside those in use. Once they are, the newcomers wait
// at the other end, and the ranks agree on a step after which all of them leave: by promises as for
// saves (comm/save_agreement.h), or with Slipstream by its vote. A rank that is not in the next
// generation joins the agreement when another one says that it is connected; one that hands its
// state over (hand_over.h), when the one that gets it is connected with it, which is so after all
// newcomers are with each other.
//
// If somebody leaves for good, what it has learnt by itself would be lost: then all ranks take the
// mean of their parameters first (Assignment::averages_first).
//
// Used by the training thread, between steps.
#ifndef WORKER_TRAINER_GENERATION_SUCCESSION_H_
#define WORKER_TRAINER_GENERATION_SUCCESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "worker/trainer/comm/connecting.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/save_agreement.h"
#include "worker/trainer/config.h"
#include "worker/trainer/generation/conductor.h"

namespace paceline {

class Succession {
 public:
  // Begins to connect the members of a generation, or the other side of a hand-over.
  using Connect = std::function<std::unique_ptr<Connecting>(const Assignment&)>;

  // `groups` are the present generation's, in which `steps_done` steps are done.
  Succession(Conductor& conductor, Groups groups, int64_t steps_done, Connect connect);

  // Call after each step. True: leave the present generation now. Throws CollectiveError.
  bool AfterStep(int64_t steps_done);

  // Used instead of AfterStep where ranks vote: the generation that this rank is ready to leave
  // for; 0: none.
  int64_t ReadyFor();

  // When AfterStep has returned true: whether all ranks take the mean of their parameters before
  // they leave. The same on all.
  bool averages_first() const { return averages_first_; }

  // The next generation's groups, if connected.
  struct Next {
    int64_t generation = 0;
    Connected connected;
  };
  std::optional<Next> TakeNext();

 private:
  void ConnectTo(int64_t generation);

  Conductor& conductor_;
  Groups groups_;
  const Connect connect_;
  int64_t connecting_to_ = 0;
  std::unique_ptr<Connecting> connecting_;
  std::optional<Next> next_;
  int64_t ready_for_ = 0;
  bool averages_first_ = false;          // Of the generation `ready_for_`.
  std::atomic<int64_t> leaving_for_{0};  // Generation under agreement.
  int64_t attempts_ = 0;
  std::atomic<bool> must_propose_{true};
  SaveAgreement agreement_;  // Last member: its thread uses the others.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_SUCCESSION_H_
