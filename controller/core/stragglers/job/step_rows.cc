#include "controller/core/stragglers/job/step_rows.h"

#include <algorithm>
#include <cstddef>

namespace paceline {

StepRows::StepRows(int ranks) : ranks_(ranks), open_(kOpenSteps) {}

std::optional<StepRow> StepRows::Add(int rank, const StepTimes& times) {
  Open& open = open_[static_cast<size_t>(times.step % kOpenSteps)];
  if (times.step < open.row.step) return std::nullopt;
  if (times.step > open.row.step) {
    open.row = StepRow();
    open.row.step = times.step;
    open.row.communication_s = kLongestStepS;
    open.row.own_s.assign(static_cast<size_t>(ranks_), 0);
    open.row.exchanges.assign(static_cast<size_t>(ranks_), RankExchange());
    open.told = 0;
    open.by.assign(static_cast<size_t>(ranks_), false);
  }
  if (open.by[static_cast<size_t>(rank)]) return std::nullopt;
  open.by[static_cast<size_t>(rank)] = true;
  ++open.told;
  StepRow& row = open.row;
  row.masked = row.masked || times.masked;
  row.total_s += times.total_s / ranks_;
  row.own_s[static_cast<size_t>(rank)] = static_cast<float>(OwnSeconds(times));
  row.exchanges[static_cast<size_t>(rank)] = {static_cast<float>(times.communication_s),
                                              static_cast<float>(times.averaging_s),
                                              times.averaging_ranks};
  row.communication_s = std::min(row.communication_s, times.communication_s);
  if (times.averaging_ranks > 1) {
    const auto [least, is_new] =
        row.averaging_s.try_emplace(times.averaging_ranks, times.averaging_s);
    if (!is_new) least->second = std::min(least->second, times.averaging_s);
  }
  if (open.told < ranks_) return std::nullopt;
  return row;
}

}  // namespace paceline
