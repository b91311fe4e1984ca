#include "worker/trainer/saving/save_schedule.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/core/save_count.h"

namespace paceline {

SaveSchedule::SaveSchedule(const Parts& parts, int64_t steps_done)
    : parts_(parts),
      agreement_(
          {[this](int64_t order, int64_t promise) {
             return parts_.groups.GreatestOfAll(absl::StrCat("save/", order), promise,
                                                SaveAgreement::kPatience);
           },
           [this](int64_t order, const std::string& why) { parts_.saver.GiveUp(order, why); }},
          steps_done) {
  if (std::exchange(parts.memory.by_steps.due, false)) due_ = Due{0, false};
}

SaveSchedule::~SaveSchedule() { parts_.memory.by_steps.due = due_.has_value() && due_->order == 0; }

void SaveSchedule::Propose(const SaveOrder& order) { agreement_.Propose(order); }

bool SaveSchedule::AfterStep(int64_t steps_done, bool all_equal) {
  SaveCount& count = parts_.memory.by_steps;
  count.CountTo(steps_done, parts_.config.every_steps);
  const bool by_steps = std::exchange(count.due, false);
  const bool asked = std::exchange(parts_.memory.asked, false);
  if ((by_steps || asked) && !due_) due_ = Due{0, false};
  absl::Duration waited;
  if (const std::optional<SaveOrder> order = agreement_.AfterStep(steps_done, &waited)) {
    due_ = Due{order->number, order->now};
  }
  const uint64_t start_ns = MonotonicNanos();
  const bool saves = due_ && steps_done < parts_.steps && (all_equal || due_->now);
  if (saves) {
    if (!all_equal) parts_.make_equal();
    const int64_t order = std::exchange(due_, std::nullopt)->order;
    parts_.saver.Save(steps_done, order, /*must=*/order != 0 || parts_.config.wait_when_busy);
  }
  const double saving_s = saves ? static_cast<double>(MonotonicNanos() - start_ns) * 1e-9 : 0;
  parts_.saver.CountBlocked(absl::ToDoubleSeconds(waited) + saving_s);
  return saves || waited > absl::ZeroDuration();
}

void SaveSchedule::SaveAtEnd(int64_t steps_done) {
  if (const std::optional<SaveOrder> agreed = agreement_.Close()) {
    due_ = Due{agreed->number, false};
  }
  parts_.saver.SaveAtEnd(steps_done, due_ ? due_->order : 0, due_.has_value());
}

}  // namespace paceline
