// Makes the copies of a rank's state in host memory, sends them to the rank's buddy, and keeps
// those of its ward (core/copy_keeper.h, docs/recovery.md).
//
//   training thread   Copy ── forward, backward ── BeforeChange ── optimizer ...
//   copy              ├──── staging ─────┤
//   sender's thread   ├─────────────────── send ───────────────────┤ OnSent
//   receiver's thread ├── waits ──┤── receives the ward's ──┤
//
// A link that has broken costs the copy that is under way; the next one makes it anew, beside the
// training (copy_link.h). Whoever leaves a generation does not wait for that. Memory is allocated
// when first needed, that of the second copy beside the training, and reused: four times the rank's
// state.
//
// Thread-compatible: one training thread, unless a function says otherwise.
#ifndef WORKER_TRAINER_COPIES_STATE_COPIES_H_
#define WORKER_TRAINER_COPIES_STATE_COPIES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/trainer/checkpoint/host_buffer.h"
#include "worker/trainer/checkpoint/task_thread.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/copies/copy_link.h"
#include "worker/trainer/copies/state_image.h"
#include "worker/trainer/core/copy_keeper.h"

namespace paceline {

class StateCopies {
 public:
  struct Options {
    int64_t every_steps = 1;
    int64_t steps = 0;      // Of the job: there is no copy after the last.
    double send_limit = 0;  // Bytes per second, but for what is left at Leave; 0: none.
    // Told after each change, on any thread.
    std::function<void(const CopyReport&)> on_report;
  };

  // `platform` must outlive this.
  StateCopies(Platform& platform, Options options);
  ~StateCopies();

  // The rank meets the members of the next generation. Requires: Leave.
  void Enter(const CopyOrders& orders);
  // The generation's training begins. Copies are made after steps above `furthest`, the most that
  // any member has done, so that all make the same: after the first of these, as members may be new
  // and buddies others, and after each every_steps-th. Null links: none are made.
  void Begin(std::shared_ptr<const CopyLinks> links, int64_t furthest);

  // Whether a copy is to be made after so many steps.
  bool IsDue(int64_t steps_done) const;
  // Makes it. `orders`: the newest. `facts`: without the label. Requires: IsDue.
  void Copy(int64_t steps_done, const CopyOrders& orders, const StateParts& parts,
            ImageFacts facts);
  // As ShardSaver::BeforeChange.
  void BeforeChange();

  // The generation is over. Waits until what is under way is done, as fast as it can be, or has
  // failed because the generation's collectives were ended.
  void Leave();
  // The training is over, and its groups are whole. As Leave, but for what is not done after
  // `patience`, which is given up without a report. Nothing is under way any more on return.
  void Finish(absl::Duration patience);

  // For going back (copy_restore.h), after Enter. Labels of all whole copies; the image of one,
  // empty if there is none.
  std::vector<CopyLabel> Held() const;
  absl::string_view ImageOf(const CopyLabel& label) const;
  // Memory for a complete copy from another rank, and that it is there. ResourceExhausted: the host
  // has none.
  absl::StatusOr<char*> BeginFetch(const CopyLabel& label, size_t bytes);
  void EndFetch(bool whole);
  // This rank goes back by so many steps.
  void BeginRestore(int64_t steps_lost);

 private:
  // Of one place in the keeper. It belongs to whoever fills or sends the copy there, otherwise to
  // the training thread, or for the ward's to the receiver's.
  struct Room {
    std::unique_ptr<HostBuffer> memory;  // Null until it is needed.
    size_t bytes = 0;                    // Of the image in it.
  };
  using Rooms = std::array<Room, CopyPlaces::kCount>;

  // At least `bytes`. Throws std::bad_alloc.
  char* MemoryIn(Room& room, size_t bytes) const;
  // Gives the room for the next copy its memory, while nobody uses it.
  void PrepareRoom(size_t place, size_t bytes);
  // Begins to copy the state to the room; null: there is no memory, on the host or the device.
  std::shared_ptr<StateImage> Stage(Room& room, const StateParts& parts, const ImageFacts& facts);
  void Report() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(size_t place, int64_t step, const std::string& why);

  // On the sender's thread. Blocks for so long, or until the rank leaves the generation.
  void Pause(absl::Duration duration);
  // `image` null: the copy was given up.
  void Send(CopyLink& link, const StateImage* image, size_t place, CopyHeader header);
  // On the receiver's thread. The ward's copy of this step.
  void Receive(CopyLink& link, int64_t step);
  // And those before that are still to come: after a break the ward may be behind, or ahead.
  void ReceiveUpTo(const CopyLink& link, int64_t step);
  // On either thread. False: the other end has not come in time, or this rank leaves. After
  // 10 s the attempt ends as soon as `may_end`.
  bool Reconnect(CopyLink& link, const std::function<bool()>& may_end);
  bool IsLeaving() const;
  char* TakeWard(const CopyHeader& header, std::optional<size_t>* place);

  Platform& platform_;
  const Options options_;

  // Used by the training thread.
  std::shared_ptr<const CopyLinks> links_;
  int64_t furthest_ = 0;
  std::shared_ptr<StateImage> copying_;  // Null while nothing is being copied.
  std::optional<size_t> fetching_;

  // Used by the receiver's thread: what has come over the present connection, of a copy of a later
  // step than the one that it is at.
  std::optional<CopyHeader> early_;
  // Step of the newest copy that the ward makes, too.
  std::atomic<int64_t> newest_due_{0};

  Rooms own_;
  Rooms ward_;

  mutable absl::Mutex mu_;
  CopyKeeper keeper_ ABSL_GUARDED_BY(mu_);
  bool is_leaving_ ABSL_GUARDED_BY(mu_) = false;
  bool gives_up_ ABSL_GUARDED_BY(mu_) = false;  // What fails is not reported any more.

  // Last members, because their threads use the others.
  TaskThread sender_;
  TaskThread receiver_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COPIES_STATE_COPIES_H_
