// At which step the ranks make a save that was ordered.
//
// The order reaches the ranks at different moments and steps. Each promises not to go beyond a step
// about a second ahead of it before it knows more; the greatest of these promises, which the
// ranks exchange by their store on a thread of this, is a step that none has passed: from there
// on the order is due. A rank that arrives at its promise first has to wait, but not for long: when
// some rank does not answer within the patience, all of them give the order up.
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
    // The greatest of the numbers that all ranks pass for this order, or nothing:
    // Groups::GreatestOfAll. Called on the thread.
    std::function<std::optional<int64_t>(int64_t order, int64_t promise)> greatest;
    // This order will not be carried out, and why. Called on any thread.
    std::function<void(int64_t order, const std::string& why)> given_up;
  };

  // Training goes on after `steps_done` steps.
  SaveAgreement(Events events, int64_t steps_done);
  // Waits for an agreement that is under way, as long as its patience lets it.
  ~SaveAgreement();

  // Any thread. An order that is not newer than those known is ignored.
  void Propose(const SaveOrder& order);

  // The training thread, after each step: an order that is due now. `waited`: for others, mostly
  // nothing. Throws what Events::greatest has thrown.
  std::optional<SaveOrder> AfterStep(int64_t steps_done, absl::Duration* waited);

  // No further step comes. Waits for an agreement that is under way; returns the newest order
  // that was agreed on and not due yet. What is proposed later is given up.
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
  int64_t known_ ABSL_GUARDED_BY(mu_) = 0;  // Number of the newest order.
  std::optional<SaveOrder> waiting_ ABSL_GUARDED_BY(mu_);
  bool agreeing_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Agreed> agreed_ ABSL_GUARDED_BY(mu_);
  std::exception_ptr error_ ABSL_GUARDED_BY(mu_);
  int64_t steps_done_ ABSL_GUARDED_BY(mu_);
  int64_t limit_ ABSL_GUARDED_BY(mu_) = kNoLimit;  // The promise.
  // The pace is that of the latest window of about a second: single steps differ by far more, when
  // only some of them wait for other ranks.
  absl::Time window_begin_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();  // Monotonic.
  int64_t window_steps_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Duration step_time_ ABSL_GUARDED_BY(mu_);  // In the window before; zero: none yet.
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_SAVE_AGREEMENT_H_
