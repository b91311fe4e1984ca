// What one rule achieved on some histories.
#ifndef BENCH_STRAGGLERS_FIGURES_H_
#define BENCH_STRAGGLERS_FIGURES_H_

#include <cstdint>
#include <map>
#include <vector>

namespace paceline::detect {

// Distribution of delays in steps.
class Delays {
 public:
  void Add(int64_t steps) { ++counts_[steps]; }
  void Merge(const Delays& other) {
    for (const auto& [steps, count] : other.counts_) counts_[steps] += count;
  }
  int64_t count() const;
  // Least delay that `share` of the delays do not exceed; -1 without any. Requires: 0 < share <= 1.
  int64_t Quantile(double share) const;

 private:
  std::map<int64_t, int64_t> counts_;
};

struct Figures {
  int64_t histories = 0;
  int64_t rank_steps = 0;
  int64_t positives = 0;  // Faults that last, and how many of them were found.
  int64_t found = 0;
  int64_t right_suspects = 0;  // SUSPECTs whose rank was slow, or not.
  int64_t wrong_suspects = 0;
  int64_t transients = 0;  // Slowdowns of 20 steps and more that ended, and how many were found.
  int64_t transients_found = 0;
  int64_t classed = 0;  // Slowdowns found; those with the right class.
  int64_t classed_right = 0;
  int64_t wrong_drains = 0;  // PERSISTENT or NODE without a lasting fault.
  int64_t wrong_groups = 0;  // GROUP without a job-wide event.
  int64_t wrong_ends = 0;    // TRANSIENT or RECOVERED during a lasting, steady fault.
  int64_t causes = 0;        // Right suspects of lasting faults, and those with the right cause.
  int64_t causes_right = 0;
  int64_t intervals = 0;        // PERSISTENTs of lasting faults of one size.
  int64_t intervals_right = 0;  // Of those, with that size in their interval.
  Delays to_suspect;  // Steps from a lasting fault's first one to when it was told, inclusive.
  Delays to_persistent;

  void Merge(const Figures& other);
};

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_FIGURES_H_
