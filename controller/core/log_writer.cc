#include "controller/core/log_writer.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "controller/core/membership.h"

namespace paceline {

const RankState* WriterFor(const Job& job, const LogReader& reader) {
  const bool started_anew = reader.trainer.generation < job.recovery.started;
  const int seat = started_anew ? reader.rank.value() : reader.seat;
  // Mostly no seat is empty. Readers ask at each change of any job.
  const auto at = static_cast<size_t>(seat);
  if (at < job.ranks.size() && job.ranks[at].seat == seat) return &job.ranks[at];
  return HolderOf(job, seat);
}

bool MayWrite(const Job& job, const LogReader& reader) {
  const RankState* writer = WriterFor(job, reader);
  const auto is_trainer = [&](const RankState& other) { return other.report.id == reader.trainer; };
  if (writer != nullptr && is_trainer(*writer)) return true;
  const auto has = [&](const std::vector<RankState>& trainers) {
    return std::any_of(trainers.begin(), trainers.end(), [&](const RankState& other) {
      return is_trainer(other) && other.lost.empty() && !HasEnded(other);
    });
  };
  return has(job.leaving) || (writer == nullptr && has(job.spares));
}

}  // namespace paceline
