// A job whose step times vary at random but reproducibly, for tests of the detector.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_TESTING_SAMPLE_JOB_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_TESTING_SAMPLE_JOB_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "controller/core/stragglers/detector/detector.h"

namespace paceline {

struct SampleJob {
  // Ranks fill the nodes in order, and likewise the peer groups.
  SampleJob(int count, int per_node, int groups) {
    for (int rank = 0; rank < count; ++rank) {
      ranks.push_back({rank / per_node, rank * groups / count});
    }
  }

  StepSample Sample(int rank) {
    StepSample sample;
    sample.rank = rank;
    sample.step = step;
    const double compute = std::exp(noise * normal(random));
    sample.forward_s = 0.35 * compute;
    sample.backward_s = 0.65 * compute;
    sample.data_wait_s = 0.001;
    return sample;
  }

  // Plays this many more steps.
  void Play(StragglerDetector& detector, int steps) {
    for (int i = 0; i < steps; ++i, ++step) {
      for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
        StepSample sample = Sample(rank);
        if (change) change(sample);
        detector.Add(sample, verdicts);
      }
    }
  }

  // From now on multiplies the ranks' own times.
  void Slow(std::vector<int> who, double factor) {
    change = [who = std::move(who), factor](StepSample& sample) {
      if (std::find(who.begin(), who.end(), sample.rank) == who.end()) return;
      sample.forward_s *= factor;
      sample.backward_s *= factor;
    };
  }

  std::vector<Verdict> Of(VerdictKind kind) const {
    std::vector<Verdict> found;
    for (const Verdict& verdict : verdicts) {
      if (verdict.kind == kind) found.push_back(verdict);
    }
    return found;
  }

  std::vector<DetectorRank> ranks;
  std::vector<Verdict> verdicts;
  double noise = 0.008;
  int64_t step = 0;
  std::function<void(StepSample&)> change;
  uint64_t seed = 7;
  std::mt19937_64 random{seed};
  std::normal_distribution<double> normal;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_TESTING_SAMPLE_JOB_H_
