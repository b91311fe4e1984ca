#include "controller/core/stragglers/job/step_rows.h"

#include <algorithm>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/median.h"

namespace paceline {
namespace {

// Gives ranks that have not reported the median of the others' own times.
void FillGaps(const std::vector<bool>& told, std::vector<float>& own_s) {
  std::vector<float> known;
  for (size_t r = 0; r < own_s.size(); ++r) {
    if (told[r]) known.push_back(own_s[r]);
  }
  const float median = MedianOf(absl::MakeSpan(known));
  for (size_t r = 0; r < own_s.size(); ++r) {
    if (!told[r]) own_s[r] = median;
  }
}

}  // namespace

StepRows::StepRows(int ranks, int64_t first_step, bool ranks_skip)
    : ranks_(ranks),
      enough_(ranks_skip ? ranks / 2 + 1 : (ranks * 19 + 19) / 20),
      newest_(first_step - 1),
      open_(kOpenSteps) {}

bool StepRows::Begin(Open& slot, int64_t step) {
  if (step == slot.row.step) return !slot.closed;
  if (step < slot.row.step && slot.row.step <= newest_ + kFarAhead) return false;
  const auto ranks = static_cast<size_t>(ranks_);
  slot.row = StepRow();
  slot.row.step = step;
  slot.row.communication_s = kLongestStepS;
  slot.row.own_s.assign(ranks, 0);
  slot.row.exchanges.assign(ranks, RankExchange());
  slot.told = 0;
  slot.by.assign(ranks, false);
  slot.closed = false;
  return true;
}

void StepRows::Add(int rank, const StepTimes& times, std::vector<StepRow>& rows) {
  Open& slot = SlotOf(times.step);
  const auto r = static_cast<size_t>(rank);
  if (!Begin(slot, times.step) || slot.by[r]) return;
  slot.by[r] = true;
  ++slot.told;
  StepRow& row = slot.row;
  row.masked = row.masked || times.masked;
  row.total_s += times.total_s;
  row.own_s[r] = static_cast<float>(OwnSeconds(times));
  row.exchanges[r] = {static_cast<float>(times.communication_s),
                      static_cast<float>(times.averaging_s), times.averaging_ranks};
  row.communication_s = std::min(row.communication_s, times.communication_s);
  row.sent_bytes = std::max(row.sent_bytes, times.sent_bytes);
  if (times.averaging_ranks > 1) {
    const auto [least, is_new] =
        row.averaging_s.try_emplace(times.averaging_ranks, times.averaging_s);
    if (!is_new) least->second = std::min(least->second, times.averaging_s);
  }
  if (slot.told == enough_) {
    newest_ = std::max(newest_, times.step);
    const int64_t earlier = times.step - kPatience;
    Open& waiting = SlotOf(std::max<int64_t>(0, earlier));
    if (waiting.row.step == earlier && waiting.told >= enough_ && !waiting.closed) {
      Close(waiting, rows);
    }
  }
  if (slot.told == ranks_) Close(slot, rows);
}

void StepRows::Close(Open& slot, std::vector<StepRow>& rows) {
  slot.closed = true;
  slot.row.total_s /= slot.told;
  if (slot.told < ranks_) FillGaps(slot.by, slot.row.own_s);
  rows.push_back(slot.row);
}

}  // namespace paceline
