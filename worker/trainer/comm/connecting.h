// Connects the groups of a generation on a thread of its own, so that training can go on meanwhile
// or the caller can abandon the attempt.
//
// A library that waits for a peer waits until its timeout; nothing can interrupt it. An abandoned
// attempt leaves the thread behind, which ends by itself and then closes its connections. Only this
// kind of thread is not joined.
//
// Thread-compatible.
#ifndef WORKER_TRAINER_COMM_CONNECTING_H_
#define WORKER_TRAINER_COMM_CONNECTING_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/plan_builder.h"

namespace paceline {

struct CopyLinks;

struct Connected {
  std::shared_ptr<Groups> groups;
  std::shared_ptr<const BuiltPlan> plan;    // The first plan, from rank 0.
  std::shared_ptr<Group> callers;           // For whoever makes the steps; null: not asked for.
  std::shared_ptr<const CopyLinks> copies;  // Null: there are none.
  // With the other side of a hand-over (generation/hand_over.h); null: there is none. Who leaves
  // has nothing else of these.
  std::shared_ptr<Group> hand_over;
};

class Connecting {
 public:
  // `connect` must own what it uses, or that must live as long as the process.
  explicit Connecting(std::function<Connected()> connect);
  ~Connecting();

  // Returns or throws what `connect` did. Nothing when `is_over` becomes true first; it is polled.
  std::optional<Connected> Wait(const std::function<bool()>& is_over);

  // True when Wait would not block.
  bool IsDone() const;

 private:
  struct Attempt;
  const std::shared_ptr<Attempt> attempt_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_CONNECTING_H_
