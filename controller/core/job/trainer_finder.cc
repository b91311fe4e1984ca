#include "controller/core/job/trainer_finder.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

// The trainer that has the id's rank; null: it is another one, or there is none.
const RankState* AtItsRank(const Job& job, const TrainerId& id) {
  const int rank = id.rank.value();
  if (rank < 0 || static_cast<size_t>(rank) >= job.ranks.size()) return nullptr;
  const RankState& there = job.ranks[static_cast<size_t>(rank)];
  return there.report.id == id ? &there : nullptr;
}

const RankState* Scan(const Job& job, const TrainerId& id) {
  for (const auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    for (const RankState& trainer : *part) {
      if (trainer.report.id == id) return &trainer;
    }
  }
  return nullptr;
}

}  // namespace

const RankState* TrainerFinder::Find(const Job& job, const TrainerId& id) {
  if (const RankState* there = AtItsRank(job, id); there != nullptr) return there;
  if (scans_ < kScans) {
    ++scans_;
    return Scan(job, id);
  }
  const Table& table = TableOf(job);
  const auto found = table.find({id.generation, id.rank});
  return found == table.end() ? nullptr : found->second;
}

const TrainerFinder::Table& TrainerFinder::TableOf(const Job& job) {
  const auto [entry, is_new] = tables_.try_emplace(&job);
  Table& table = entry->second;
  if (!is_new) return table;
  for (const RankState* trainer : TrainersOf(job)) {
    table.emplace(std::make_pair(trainer->report.id.generation, trainer->report.id.rank), trainer);
  }
  return table;
}

const RankState* WriterFor(const Job& job, const LogReader& reader) {
  const bool started_anew = reader.trainer.generation < job.recovery.started;
  const int seat = started_anew ? reader.rank.value() : reader.seat;
  // A shortcut, as usually no seat is empty and readers ask at each change of any job.
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
