// One measured quantity of all ranks (their own time, or their wait for data): its residuals, its
// noise, and a watch per rank.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_CHANNEL_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/noise_scale.h"
#include "controller/core/stragglers/detector/peer_residuals.h"
#include "controller/core/stragglers/detector/rank_watch.h"

namespace paceline {

class Channel {
 public:
  Channel(int ranks, const WatchOptions& options);

  // Computes the residuals of a row of values by rank; NaN: not known.
  void Measure(PeerResiduals& peers, absl::Span<const double> values);

  // Takes a row without residuals.
  void Skip();

  // By rank; may be changed before Learn.
  absl::Span<double> residuals() { return absl::MakeSpan(residuals_); }

  // Says that the rank's residual in this row does not show what is usual.
  void SetUnusual(int rank) { usual_[static_cast<size_t>(rank)] = false; }

  // Learns the noise from the residuals.
  void Learn();

  // Whether the rank has a residual in this row.
  bool has_residual(int rank) const;
  // Fills in the row's residual and updates the rank's watch. Requires: has_residual.
  RankWatch::Change Update(int rank, WatchRow row);

  bool is_slow(int rank) const { return slow_[static_cast<size_t>(rank)]; }
  const RankWatch& watch(int rank) const { return watches_[static_cast<size_t>(rank)]; }
  const NoiseLevel& noise() const { return noise_.level(); }
  void SetRecurrent(int rank) { watches_[static_cast<size_t>(rank)].SetRecurrent(); }

 private:
  const WatchOptions options_;
  NoiseScale noise_;
  std::vector<RankWatch> watches_;
  std::vector<bool> slow_;
  std::vector<double> residuals_;
  std::vector<bool> usual_;      // By rank: whether its residual may be learned from.
  std::vector<double> healthy_;  // Scratch.
  int64_t rows_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_CHANNEL_H_
