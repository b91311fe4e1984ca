#include "slipstream/header.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace paceline {
namespace {

enum Field {
  kSteps,
  kActive,
  kReady,
  kStale,
  kComing,
  kTimeIsUp,
  kExcluded,
  kExcludedRank,
  kFault,
  kFaultRank,
  kPlan,
  kPlanSquare,
  kSave,
  kSaveSquare,
  kLeave,
  kLeaveSquare,
  kSpeed,  // Steps per second.
  kSpeeds,
  kCollective,  // Seconds, as below.
  kCopies,
  kStretched,
  kSquaredUpdate,
  kLoss,
  kLosses,
  kHashLow,
  kHashLowSquare,
  kHashHigh,
  kHashHighSquare,
  kFields,
};

// Small enough for the squared sum, and the sum of squares times the ranks, to fit into 64 bits.
constexpr int kVoteBits = 19;
constexpr uint64_t kVoteMask = (uint64_t{1} << kVoteBits) - 1;
static_assert(kHashBits == 2 * kVoteBits);

class Writer {
 public:
  void Set(Field field, double value) { numbers_[field] = value; }
  void SetVote(Field field, uint64_t vote) {
    const double value = static_cast<double>(vote);
    numbers_[field] = value;
    numbers_[static_cast<size_t>(field) + 1] = value * value;
  }
  void SetVote(Field field, int64_t vote) {
    SetVote(field, static_cast<uint64_t>(std::clamp<int64_t>(vote, 0, kVoteMask)));
  }
  // Sets a flag, and says which rank has set it.
  void SetFlag(Field field, bool flag, int rank) {
    if (!flag) return;
    numbers_[field] = 1;
    numbers_[static_cast<size_t>(field) + 1] = rank;
  }
  std::vector<double> Take() { return std::move(numbers_); }

 private:
  std::vector<double> numbers_ = std::vector<double>(kFields, 0.0);
};

class Reader {
 public:
  Reader(absl::Span<const double> sums, int ranks) : sums_(sums), ranks_(ranks) {}

  double Get(Field field) const { return sums_[field]; }
  int Count(Field field) const { return static_cast<int>(sums_[field]); }
  int Who(Field field) const {
    return Count(field) == 1 ? static_cast<int>(sums_[static_cast<size_t>(field) + 1]) : -1;
  }
  bool AllTellTheSame(Field field) const {
    const auto sum = static_cast<uint64_t>(sums_[field]);
    const auto squares = static_cast<uint64_t>(sums_[static_cast<size_t>(field) + 1]);
    return static_cast<uint64_t>(ranks_) * squares == sum * sum;
  }
  int64_t Vote(Field field) const {
    return AllTellTheSame(field) ? static_cast<int64_t>(sums_[field]) / ranks_ : 0;
  }
  absl::Duration Mean(Field field) const { return absl::Seconds(sums_[field] / ranks_); }

 private:
  absl::Span<const double> sums_;
  int ranks_;
};

}  // namespace

std::vector<double> HeaderNumbers(const RoundHeader& header, int rank) {
  Writer writer;
  writer.Set(kSteps, static_cast<double>(header.steps));
  writer.Set(kActive, header.steps > 0 ? 1 : 0);
  writer.Set(kReady, header.ready ? 1 : 0);
  writer.Set(kStale, header.stale ? 1 : 0);
  writer.Set(kComing, header.coming ? 1 : 0);
  writer.Set(kTimeIsUp, header.time_is_up ? 1 : 0);
  writer.SetFlag(kExcluded, header.excluded, rank);
  writer.SetFlag(kFault, header.fault, rank);
  writer.SetVote(kPlan, header.plan_ahead);
  writer.SetVote(kSave, header.save_ahead);
  writer.SetVote(kLeave, header.leave_ahead);
  if (header.step > absl::ZeroDuration()) {
    writer.Set(kSpeed, 1 / absl::ToDoubleSeconds(header.step));
    writer.Set(kSpeeds, 1);
  }
  writer.Set(kCollective, absl::ToDoubleSeconds(header.collective));
  writer.Set(kCopies, absl::ToDoubleSeconds(header.copies));
  writer.Set(kStretched, header.stretched ? 1 : 0);
  writer.Set(kSquaredUpdate, header.squared_update);
  if (header.loss) {
    writer.Set(kLoss, *header.loss);
    writer.Set(kLosses, 1);
  }
  writer.SetVote(kHashLow, header.hash & kVoteMask);
  writer.SetVote(kHashHigh, header.hash >> kVoteBits & kVoteMask);
  return writer.Take();
}

RoundSums ReadHeaderSums(absl::Span<const double> sums, int ranks) {
  const Reader reader(sums, ranks);
  RoundSums result;
  result.steps = static_cast<int64_t>(reader.Get(kSteps));
  result.active = reader.Count(kActive);
  result.ready = reader.Count(kReady);
  result.stale = reader.Count(kStale);
  result.coming = reader.Count(kComing);
  result.time_is_up = reader.Count(kTimeIsUp);
  result.excluded = reader.Count(kExcluded);
  result.excluded_rank = reader.Who(kExcluded);
  result.fault = reader.Count(kFault);
  result.fault_rank = reader.Who(kFault);
  result.plan_ahead = reader.Vote(kPlan);
  result.save_ahead = reader.Vote(kSave);
  result.leave_ahead = reader.Vote(kLeave);
  result.started = reader.Count(kSpeeds);
  if (result.started > 0) {
    result.step = absl::Seconds(reader.Get(kSpeeds) / reader.Get(kSpeed));
  }
  result.collective = reader.Mean(kCollective);
  result.copies = reader.Mean(kCopies);
  result.stretched = 2 * reader.Count(kStretched) > ranks;
  result.squared_update = reader.Get(kSquaredUpdate);
  if (reader.Count(kLosses) > 0) result.loss = reader.Get(kLoss) / reader.Get(kLosses);
  result.hashes_differ = !reader.AllTellTheSame(kHashLow) || !reader.AllTellTheSame(kHashHigh);
  return result;
}

std::vector<double> RollCallNumbers(uint64_t hash, int rank, int ranks) {
  std::vector<double> numbers(static_cast<size_t>(ranks), 0.0);
  numbers[static_cast<size_t>(rank)] = static_cast<double>(hash & ((uint64_t{1} << kHashBits) - 1));
  return numbers;
}

std::vector<int> RanksThatDiffer(absl::Span<const double> roll_call) {
  std::map<double, int> ranks_with;
  for (const double hash : roll_call) ++ranks_with[hash];
  double common = roll_call[0];
  for (const double hash : roll_call) {
    if (ranks_with[hash] > ranks_with[common]) common = hash;
  }
  std::vector<int> ranks;
  for (size_t rank = 0; rank < roll_call.size(); ++rank) {
    if (roll_call[rank] != common) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace paceline
