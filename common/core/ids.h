// Strongly typed ids that cannot be confused.
//
// A JobId or NodeName wraps its text; Rank, Generation and PlanVersion wrap a number. Ids of
// one type compare and hash by value; two types never mix, and nothing converts by itself.
#ifndef COMMON_CORE_IDS_H_
#define COMMON_CORE_IDS_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

namespace paceline {

template <typename Tag, typename Value>
class Id {
 public:
  Id() = default;
  explicit Id(Value value) : value_(std::move(value)) {}

  const Value& value() const { return value_; }

  friend bool operator==(const Id& a, const Id& b) { return a.value_ == b.value_; }
  friend bool operator!=(const Id& a, const Id& b) { return a.value_ != b.value_; }
  friend bool operator<(const Id& a, const Id& b) { return a.value_ < b.value_; }
  template <typename H>
  friend H AbslHashValue(H h, const Id& id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  Value value_{};
};

// "job-" and 12 hexadecimal digits.
using JobId = Id<struct JobIdTag, std::string>;
// Name of a node, unique in the cluster.
using NodeName = Id<struct NodeNameTag, std::string>;
// Global rank of a trainer in its job, 0-based.
using Rank = Id<struct RankTag, int>;
// Number of a membership of a job, 1-based, never reused.
using Generation = Id<struct GenerationTag, int64_t>;
// Version number of a job's plan (proto/plan.proto), 1-based, never reused.
using PlanVersion = Id<struct PlanVersionTag, int64_t>;

// One trainer process: a rank of a job in a generation.
struct TrainerId {
  JobId job;
  Generation generation;
  Rank rank;

  friend bool operator==(const TrainerId& a, const TrainerId& b) {
    return std::tie(a.job, a.generation, a.rank) == std::tie(b.job, b.generation, b.rank);
  }
  friend bool operator<(const TrainerId& a, const TrainerId& b) {
    return std::tie(a.job, a.generation, a.rank) < std::tie(b.job, b.generation, b.rank);
  }
};

}  // namespace paceline

#endif  // COMMON_CORE_IDS_H_
