// The groups of a generation, connected on a thread of its own: beside the training, or so that the
// caller can let go of it.
//
// A library that waits for a peer that never comes does so until its timeout, and nothing can
// interrupt it. Who lets go of such an attempt leaves the thread behind: it ends by itself, and
// with it go the connections. This is the one kind of thread that is not joined.
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

struct Connected {
  std::shared_ptr<Groups> groups;
  std::shared_ptr<const BuiltPlan> plan;  // The first one: that of rank 0.
};

class Connecting {
 public:
  // `connect` owns what it uses, or it lives as long as the process.
  explicit Connecting(std::function<Connected()> connect);
  ~Connecting();

  // Throws what `connect` threw. Nothing when `is_over` came true before; it is asked now and then.
  std::optional<Connected> Wait(const std::function<bool()>& is_over);

  // Wait would not block.
  bool IsDone() const;

 private:
  struct Attempt;
  const std::shared_ptr<Attempt> attempt_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_CONNECTING_H_
