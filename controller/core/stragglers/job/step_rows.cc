#include "controller/core/stragglers/job/step_rows.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/median.h"

namespace paceline {
namespace {

StepRow EmptyRow(int64_t step, int ranks) {
  StepRow row;
  row.step = step;
  row.communication_s = kLongestStepS;
  row.own_s.assign(static_cast<size_t>(ranks), 0);
  row.exchanges.assign(static_cast<size_t>(ranks), RankExchange());
  return row;
}

}  // namespace

StepRows::StepRows(int ranks, int open_steps, bool ranks_skip)
    : ranks_(ranks),
      enough_(ranks_skip ? ranks / 2 + 1 : (ranks * 19 + 19) / 20),
      steps_(ranks, open_steps, ranks - enough_),
      open_(static_cast<size_t>(open_steps)) {}

void StepRows::Add(int rank, const StepTimes& times, std::vector<StepRow>& rows) {
  while (steps_.NeedsRoom(rank, times.step)) CloseOldest(rows);
  const StepAssembler::Added added = steps_.Add(rank, times.step);
  if (added.taken != StepAssembler::Taken::kTaken) return;
  StepRow& row = open_[static_cast<size_t>(added.slot)];
  if (added.is_first) row = EmptyRow(times.step, ranks_);
  const auto r = static_cast<size_t>(rank);
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
  while (!steps_.empty() && steps_.settled()) CloseOldest(rows);
}

void StepRows::CloseOldest(std::vector<StepRow>& rows) {
  const int reported = ranks_ - steps_.missing();
  if (reported >= enough_) {
    StepRow& row = open_[static_cast<size_t>(steps_.slot())];
    row.total_s /= reported;
    if (reported < ranks_) FillGaps(row.own_s);
    rows.push_back(std::move(row));
  }
  steps_.RemoveOldest();
}

void StepRows::FillGaps(std::vector<float>& own_s) const {
  std::vector<float> known;
  for (size_t r = 0; r < own_s.size(); ++r) {
    if (steps_.has_reported(static_cast<int>(r))) known.push_back(own_s[r]);
  }
  const float median = MedianOf(absl::MakeSpan(known));
  for (size_t r = 0; r < own_s.size(); ++r) {
    if (!steps_.has_reported(static_cast<int>(r))) own_s[r] = median;
  }
}

}  // namespace paceline
