// What happened to a job, for people: one event for each thing that they would want to know.
//
// It is bounded. The newest kRoutineKept routine events (checkpoints that went well, evaluations,
// changes of labels) are kept, and the newest kOthersKept others; so a job that saves every few
// minutes for weeks still shows its restarts. Ids are never reused: whoever has seen the events up
// to an id finds the newer ones by it. An event may be shown once it is durable.
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
// How many bytes of an event's text are kept; reasons may hold whole error messages.
inline constexpr size_t kEventTextKept = 500;

// Values of paceline.v1.JobEventKind, less one.
enum class JobEventKind {
  kState,       // It was submitted, placed, trains, ended.
  kRestart,     // It starts again, or is queued again.
  kMembership,  // Ranks were replaced, moved, or given up while it trained.
  kPlan,        // Another ladder, mode or strategy was chosen.
  kCheckpoint,
  kEvaluation,
  kStraggler,  // Who is slow, or no longer slow.
  kDecision,   // What was advised about stragglers, done, and measured.
  kStall,      // No rank makes a step.
  kLabels,     // Labels or the description were changed.
};

// As JobHistoryEvent in proto/job_history.proto.
struct JobLifeEvent {
  int64_t id = 0;   // 1-based, within the job.
  absl::Time time;  // Wall.
  JobEventKind kind = JobEventKind::kState;
  JobState state = JobState::kQueued;  // The job's, after the event.
  Generation generation{0};
  int64_t step = 0;      // The last step done, as far as was reported.
  bool warning = false;  // Something did not go well.
  std::string what;      // One line.
};

bool IsRoutine(const JobLifeEvent& event);

// At most kEventTextKept bytes of `text`, on one line, never cut inside a character.
std::string EventText(absl::string_view text);

class EventHistory {
 public:
  // Takes over stored events, all of which may be shown. Call it before anything else.
  void Restore(std::vector<JobLifeEvent> events);

  // Gives the event the next id and returns it. Appends the ids of the events that it displaces to
  // `forgotten`.
  int64_t Add(JobLifeEvent event, std::vector<int64_t>& forgotten);

  // Says that events up to `id` are durable.
  void Release(int64_t id);

  // The first event after `id` that may be shown; null: there is none yet. Valid until Add.
  const JobLifeEvent* After(int64_t id) const;

  // Null: the event is not kept.
  const JobLifeEvent* Find(int64_t id) const;

  // Oldest first, including those that may not be shown yet.
  const std::map<int64_t, JobLifeEvent>& events() const { return events_; }

  // Id of the newest event; 0: there is none yet.
  int64_t newest() const { return newest_; }
  // Whether all events may be shown.
  bool is_released() const { return released_ >= newest_; }

 private:
  std::map<int64_t, JobLifeEvent> events_;
  size_t routine_ = 0;  // How many of these are routine.
  int64_t newest_ = 0;
  int64_t released_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_HISTORY_EVENT_HISTORY_H_
