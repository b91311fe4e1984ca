#include "controller/core/history/event_history.h"

#include <algorithm>
#include <utility>

namespace paceline {
namespace {

bool ContinuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

bool IsRoutine(const JobLifeEvent& event) {
  if (event.warning) return false;
  return event.kind == JobEventKind::kCheckpoint || event.kind == JobEventKind::kEvaluation ||
         event.kind == JobEventKind::kLabels;
}

std::string EventText(absl::string_view text) {
  size_t end = std::min(text.size(), kEventTextKept);
  while (end > 0 && end < text.size() && ContinuesCharacter(text[end])) --end;
  std::string line(text.substr(0, end));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

void EventHistory::Restore(std::vector<JobLifeEvent> events) {
  for (JobLifeEvent& event : events) {
    routine_ += IsRoutine(event) ? 1 : 0;
    newest_ = std::max(newest_, event.id);
    const int64_t id = event.id;
    events_.emplace(id, std::move(event));
  }
  released_ = newest_;
}

int64_t EventHistory::Add(JobLifeEvent event, std::vector<int64_t>& forgotten) {
  event.id = ++newest_;
  const bool routine = IsRoutine(event);
  events_.emplace(newest_, std::move(event));
  routine_ += routine ? 1 : 0;
  const size_t alike = routine ? routine_ : events_.size() - routine_;
  if (alike <= (routine ? kRoutineKept : kOthersKept)) return newest_;
  const auto oldest = std::find_if(events_.begin(), events_.end(), [&](const auto& entry) {
    return IsRoutine(entry.second) == routine;
  });
  forgotten.push_back(oldest->first);
  events_.erase(oldest);
  routine_ -= routine ? 1 : 0;
  return newest_;
}

void EventHistory::Release(int64_t id) { released_ = std::max(released_, id); }

const JobLifeEvent* EventHistory::After(int64_t id) const {
  const auto next = events_.upper_bound(id);
  return next == events_.end() || next->first > released_ ? nullptr : &next->second;
}

const JobLifeEvent* EventHistory::Find(int64_t id) const {
  const auto found = events_.find(id);
  return found == events_.end() ? nullptr : &found->second;
}

}  // namespace paceline
