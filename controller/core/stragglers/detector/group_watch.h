// What concerns a whole peer group, and therefore the job, not a rank:
//
//   many    more than a quarter of its ranks are slow at once
//   jump    its typical time has moved by 10 % and more, up or down, and has stayed there for 10
//           rows; what lasts for 150 is the new normal
//   uneven  its typical time exceeds the median of all groups', or of two that of the other one, by
//           10 % and more, over 20 rows: the stages are not balanced
//
// While one of the first two holds, no rank of the group becomes persistent: its peers are no
// measure then.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_GROUP_WATCH_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_GROUP_WATCH_H_

#include <array>
#include <cstdint>

namespace paceline {

struct GroupRow {
  int64_t step = 0;
  double typical = 0;  // ln of the group's median time; NaN: not known.
  // The median of those of all groups, or of two that of the other one; NaN: there is no other.
  double of_groups = 0;
  int quantity = 0;  // What typical is of; when that changes, it is no jump.
  int ranks = 0;
  int slow = 0;            // Of these,
  double slow_excess = 0;  // and ln of their mean slowdown.
};

class GroupWatch {
 public:
  enum class Event { kNone, kMany, kJump, kUneven };

  // At most one new event per row, which is told once.
  Event Update(const GroupRow& row);

  bool held() const { return many_ || jumped_; }
  // Of the event that was told last: since when, and the time / what it is compared with.
  int64_t since_step() const { return since_step_; }
  double slowdown() const { return slowdown_; }

 private:
  static constexpr int kRecent = 10;

  bool UpdateJump(const GroupRow& row);
  bool UpdateUneven(const GroupRow& row);
  // By how much more than half of the recent rows have moved at least.
  double RecentMove() const;

  bool many_ = false;
  bool jumped_ = false;
  bool uneven_ = false;
  int quantity_ = 0;
  int64_t rows_ = 0;
  int64_t jump_rows_ = 0;
  double usual_ = 0;       // ln of the group's usual time.
  double difference_ = 0;  // Mean |typical - the one before|.
  std::array<double, kRecent> recent_ = {};
  std::array<int64_t, kRecent> recent_steps_ = {};
  int64_t compared_ = 0;  // Rows.
  double excess_ = 0;     // Mean over of_groups.
  int64_t excess_step_ = 0;
  int64_t since_step_ = 0;
  double slowdown_ = 1;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_GROUP_WATCH_H_
