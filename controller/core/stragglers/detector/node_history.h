// Which places of which nodes were slow before. What recurs is no accident, even if each episode
// ends by itself. A place is the n-th rank of a node; it outlives the ranks.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_NODE_HISTORY_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_NODE_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "controller/core/stragglers/detector/step_sample.h"

namespace paceline {

class NodeHistory {
 public:
  NodeHistory(int recurrence_rows, int recurrence_episodes, int persistent_rows)
      : recurrence_rows_(recurrence_rows),
        recurrence_episodes_(recurrence_episodes),
        persistent_rows_(persistent_rows) {}

  // Sets which rank has which place from now on, and interrupts open episodes: one that begins at
  // the same place within a few rows goes on. Only this allocates.
  void Place(absl::Span<const DetectorRank> ranks, int64_t row);

  // An episode of the rank begins or ends. Row numbers go on across Place.
  void Begin(int rank, int64_t row);
  void End(int rank, int64_t row);
  // Whether many ranks share the open episode, so that this place is not to blame; false if one
  // node was found to blame after all. Requires: an episode is open.
  void SetShared(int rank, bool shared);

  // Episodes at the rank's place within the recurrence window, without shared ones.
  int episodes(int rank, int64_t row) const;
  // Whether there were so many episodes, and so much slow time since the first of them, that it is
  // no accident; or an interrupted episode is open again and has lasted for long.
  bool IsRecurrent(int rank, int64_t row) const;

 private:
  static constexpr int kKept = 16;

  struct Episode {
    int64_t begin = 0;
    int64_t end = 0;  // Or kOpen.
    bool interrupted = false;
    bool shared = false;
  };
  struct PlaceHistory {
    int64_t count = 0;  // All episodes; `last` has the last kKept.
    std::array<Episode, kKept> last = {};

    Episode& latest() { return last[static_cast<size_t>((count + kKept - 1) % kKept)]; }
  };

  const PlaceHistory& at(int rank) const { return places_[of_rank_[static_cast<size_t>(rank)]]; }
  PlaceHistory& at(int rank) { return places_[of_rank_[static_cast<size_t>(rank)]]; }

  const int recurrence_rows_;
  const int recurrence_episodes_;
  const int persistent_rows_;
  absl::flat_hash_map<std::pair<int, int>, size_t> index_;  // By node and place on it.
  std::vector<PlaceHistory> places_;
  std::vector<size_t> of_rank_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_NODE_HISTORY_H_
