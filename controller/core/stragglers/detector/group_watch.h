// What concerns a whole peer group, and therefore the job, not a rank:
//
//   many    more than a quarter of its ranks are slow at once
//   jump    its typical time has risen by at least 10 % and stayed there for some 10 rows; after
//           150 rows this is the new normal. A fall is learned in the same way, but is no event
//   uneven  its typical time exceeds that of the groups (the median of all, or of two that of
//           the other) by at least 10 % over 20 rows: the stages are not balanced
//
// During one of the first two, no rank of the group becomes persistent, as its peers are no
// measure.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_GROUP_WATCH_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_GROUP_WATCH_H_

#include <array>
#include <cmath>
#include <cstdint>

namespace paceline {

struct GroupRow {
  int64_t step = 0;
  double typical = 0;  // ln of the group's median time; NaN: not known.
  // The median of all groups' typical times, or of two that of the other; NaN: there is no other.
  double of_groups = 0;
  int quantity = 0;  // What `typical` measures; a change of this is no jump.
  int ranks = 0;
  int slow = 0;            // How many of these are slow,
  double slow_excess = 0;  // ln of their mean slowdown, and its interval.
  double slow_low = 0;
  double slow_high = 0;
};

class GroupWatch {
 public:
  enum class Event { kNone, kMany, kJump, kUneven };

  // Takes in a row. Returns at most one event, and each only when it begins.
  Event Update(const GroupRow& row);

  bool held() const { return many_ || moved_ > 0; }
  // Since when the last returned event holds, and the time divided by what it is compared with. The
  // 95 % interval is that of the slow ranks' estimates, or of the median of the latest rows.
  int64_t since_step() const { return since_step_; }
  double slowdown() const { return std::exp(estimate_.middle); }
  double slowdown_low() const { return std::exp(estimate_.low); }
  double slowdown_high() const { return std::exp(estimate_.high); }

 private:
  static constexpr int kRecent = 10;

  struct Estimate {  // In ln.
    double low = 0;
    double middle = 0;
    double high = 0;
  };

  // Of the median of the first `count` values.
  static Estimate EstimateOf(std::array<double, kRecent> values, int count);

  bool UpdateJump(const GroupRow& row);
  bool UpdateUneven(const GroupRow& row);
  // The least by which more than half of the recent rows have moved.
  double RecentMove() const;
  // From those of the recent rows that have risen.
  Estimate EstimateRise() const;

  bool many_ = false;
  int moved_ = 0;  // 1: risen, -1: fallen; until it is back or the new normal.
  bool uneven_ = false;
  int quantity_ = 0;
  int64_t rows_ = 0;
  int64_t moved_rows_ = 0;
  double usual_ = 0;       // ln of the group's usual time.
  double difference_ = 0;  // Mean |typical - the typical before|.
  std::array<double, kRecent> recent_ = {};
  std::array<int64_t, kRecent> recent_steps_ = {};
  int64_t compared_ = 0;  // Rows compared with of_groups.
  double excess_ = 0;     // Mean of typical - of_groups.
  std::array<double, kRecent> recent_excess_ = {};
  int64_t excess_step_ = 0;
  int64_t since_step_ = 0;
  Estimate estimate_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_GROUP_WATCH_H_
