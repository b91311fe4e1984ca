// What happened to a job, for people: an event for each thing that they would want to know of.
//
// Bounded: of routine events (checkpoints that went well, evaluations) the newest kRoutineKept are
// kept, of the others the newest kOthersKept; so a job that saves every few minutes for weeks still
// shows its restarts. Ids are never used twice: who has seen those up to one finds the newer ones
// by it. An event may be told when it is durable.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_HISTORY_EVENT_HISTORY_H_
#define CONTROLLER_CORE_HISTORY_EVENT_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/job/job.h"

namespace paceline {

inline constexpr size_t kRoutineKept = 100;
inline constexpr size_t kOthersKept = 200;
// Bytes of an event's text; reasons may hold whole error messages.
inline constexpr size_t kEventTextKept = 500;

// Numbers of paceline.v1.JobEventKind, less one.
enum class JobEventKind {
  kState,       // It was submitted, placed, trains, ended.
  kRestart,     // It starts again, or is queued again.
  kMembership,  // Ranks were replaced, moved, or given up while it trained.
  kPlan,        // Another ladder, mode or strategy.
  kCheckpoint,
  kEvaluation,
  kStraggler,  // Who is slow, and who is no longer.
  kDecision,   // What was advised about that, done, and measured.
  kStall,      // No rank makes a step.
};

// proto/job_history.proto, JobHistoryEvent.
struct JobLifeEvent {
  int64_t id = 0;   // 1-based, within the job.
  absl::Time time;  // Wall.
  JobEventKind kind = JobEventKind::kState;
  JobState state = JobState::kQueued;  // Of the job, after it.
  Generation generation{0};
  int64_t step = 0;      // Done by then, as far as was told.
  bool warning = false;  // Something did not go well.
  std::string what;      // One line.
};

bool IsRoutine(const JobLifeEvent& event);

// At most kEventTextKept bytes of `text`, in one line, not cut within a character.
std::string EventText(absl::string_view text);

class EventHistory {
 public:
  // Takes over what was stored, all of which may be told; before anything else.
  void Restore(std::vector<JobLifeEvent> events);

  // Gives the event the next id and returns that. `forgotten`: appends the ids of those that it
  // takes the place of.
  int64_t Add(JobLifeEvent event, std::vector<int64_t>& forgotten);

  // Those up to `id` are durable.
  void Release(int64_t id);

  // The first that may be told after `id`; null: there is none yet. Valid until Add.
  const JobLifeEvent* After(int64_t id) const;

  // Null: it is not kept.
  const JobLifeEvent* Find(int64_t id) const;

  // Oldest first, those that may not be told yet included.
  const std::map<int64_t, JobLifeEvent>& events() const { return events_; }

  // Of the newest one; 0: none yet.
  int64_t newest() const { return newest_; }
  // Whether all that is known may be told.
  bool is_released() const { return released_ >= newest_; }

 private:
  std::map<int64_t, JobLifeEvent> events_;
  size_t routine_ = 0;  // Of these.
  int64_t newest_ = 0;
  int64_t released_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_HISTORY_EVENT_HISTORY_H_
