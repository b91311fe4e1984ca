// Lets the ranks agree on the step at which they make an ordered save.
//
// The order reaches the ranks at different times and steps. Each rank promises to stop at a step
// about a second ahead until it knows more. The ranks exchange their promises through the store on
// a thread of this class; no rank has passed the greatest, so the save is due there. A rank that
// reaches its own promise first must wait, but not long: when some rank does not answer within the
// patience, all ranks drop the order.
//
//   rank 0   step 7   order ── promise 9 ─────┐      8    9 (due)
//   rank 1   step 5      order ── promise 7 ──┴─▶ 9    6   7   8   9 (due)
//
// Thread-safe; one thread trains.
#ifndef WORKER_TRAINER_COMM_SAVE_AGREEMENT_H_
#define WORKER_TRAINER_COMM_SAVE_AGREEMENT_H_

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/trainer/config.h"

namespace paceline {

class SaveAgreement {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  struct Events {
    // Returns the greatest number that any rank passes for this order, or nothing: see
    // Groups::GreatestOfAll. Called on the thread of this class.
    std::function<std::optional<int64_t>(int64_t order, int64_t promise)> greatest;
    // Called, on any thread, when an order is given up, and why.
    std::function<void(int64_t order, const std::string& why)> given_up;
  };

  // Training continues after `steps_done` steps.
  SaveAgreement(Events events, int64_t steps_done);
  // Waits for a running agreement, at most until its patience ends.
  ~SaveAgreement();

  // Any thread. Ignores orders that are not newer than those known.
  void Propose(const SaveOrder& order);

  // Called by the training thread after each step; returns an order that is due now. `waited`: time
  // spent waiting for other ranks, mostly zero. Throws what Events::greatest has thrown.
  std::optional<SaveOrder> AfterStep(int64_t steps_done, absl::Duration* waited);

  // Call after the last step. Waits for a running agreement; returns the newest agreed order that
  // was not due yet. Later proposals are given up.
  std::optional<SaveOrder> Close();

 private:
  struct Agreed {
    SaveOrder order;
    int64_t step = 0;
  };
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  void Run();
  void CountStep(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t LeadSteps() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Agree(const SaveOrder& order, int64_t promise);
  bool MayGoOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Events events_;

  absl::Mutex mu_;
  int64_t known_ ABSL_GUARDED_BY(mu_) = 0;  // Newest order's number.
  std::optional<SaveOrder> waiting_ ABSL_GUARDED_BY(mu_);
  bool agreeing_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Agreed> agreed_ ABSL_GUARDED_BY(mu_);
  std::exception_ptr error_ ABSL_GUARDED_BY(mu_);
  int64_t steps_done_ ABSL_GUARDED_BY(mu_);
  int64_t limit_ ABSL_GUARDED_BY(mu_) = kNoLimit;  // The promise.
  // The pace is measured over a window of about a second: single steps vary much more when only
  // some of them wait for other ranks.
  absl::Time window_begin_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();  // Monotonic.
  int64_t window_steps_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Duration step_time_ ABSL_GUARDED_BY(mu_);  // In the last window; zero: unknown.
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_SAVE_AGREEMENT_H_
