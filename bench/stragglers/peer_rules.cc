#include "bench/stragglers/peer_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/types/span.h"
#include "bench/stragglers/change_points.h"
#include "controller/core/stragglers/detector/median.h"

namespace paceline::detect {
namespace {

constexpr double kNvrxThreshold = 0.75;
constexpr double kDlroverThreshold = 2;
constexpr double kWindowThreshold = 1.1;
constexpr size_t kWindow = 10;
constexpr double kVerifiedChange = 0.1;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// NaN without values.
double Median(std::vector<double>& values) {
  return values.empty() ? kUnknown : MedianOf(absl::MakeSpan(values));
}

// Ranks that are called slow now, so that only changes are reported.
class Called {
 public:
  explicit Called(size_t ranks) : slow_(ranks) {}
  void Set(size_t rank, bool slow, std::vector<int>& alarms) {
    if (slow && slow_[rank] == 0) alarms.push_back(static_cast<int>(rank));
    slow_[rank] = static_cast<char>(slow);
  }

 private:
  std::vector<char> slow_;
};

// Decides every kReportSteps steps, from the values since the last decision.
class ReportRule : public PeerRule {
 public:
  explicit ReportRule(size_t ranks) : called_(ranks), values_(ranks) {}

  void Step(const std::vector<double>& compute, std::vector<int>& alarms) override {
    for (size_t rank = 0; rank < compute.size(); ++rank) {
      if (compute[rank] > 0) values_[rank].push_back(compute[rank]);
    }
    if (++steps_ % kReportSteps != 0) return;
    Report(values_, alarms);
    for (auto& values : values_) values.clear();
  }

 protected:
  virtual void Report(std::vector<std::vector<double>>& values, std::vector<int>& alarms) = 0;
  Called called_;

 private:
  std::vector<std::vector<double>> values_;  // By rank.
  int64_t steps_ = 0;
};

// Compares ranks with the same `group_of`.
class NvrxRelative : public ReportRule {
 public:
  explicit NvrxRelative(std::vector<int> group_of)
      : ReportRule(group_of.size()), group_of_(std::move(group_of)) {}

 protected:
  void Report(std::vector<std::vector<double>>& values, std::vector<int>& alarms) override {
    std::map<int, double> least;
    std::vector<double> own;
    for (size_t rank = 0; rank < values.size(); ++rank) {
      own.push_back(Median(values[rank]));
      const auto [entry, added] = least.emplace(group_of_[rank], own.back());
      if (!added) entry->second = std::fmin(entry->second, own.back());
    }
    for (size_t rank = 0; rank < own.size(); ++rank) {
      called_.Set(rank, least[group_of_[rank]] / own[rank] < kNvrxThreshold, alarms);
    }
  }

 private:
  const std::vector<int> group_of_;
};

class NvrxIndividual : public ReportRule {
 public:
  explicit NvrxIndividual(size_t ranks) : ReportRule(ranks), best_(ranks, kUnknown) {}

 protected:
  void Report(std::vector<std::vector<double>>& values, std::vector<int>& alarms) override {
    for (size_t rank = 0; rank < values.size(); ++rank) {
      const double own = Median(values[rank]);
      best_[rank] = std::fmin(best_[rank], own);
      called_.Set(rank, best_[rank] / own < kNvrxThreshold, alarms);
    }
  }

 private:
  std::vector<double> best_;
};

class Dlrover : public ReportRule {
 public:
  using ReportRule::ReportRule;

 protected:
  void Report(std::vector<std::vector<double>>& values, std::vector<int>& alarms) override {
    std::vector<double> own;
    for (const auto& of_rank : values) {
      const auto half = static_cast<std::ptrdiff_t>(of_rank.size() / 2);
      const auto mean = [](auto begin, auto end) {
        double sum = 0;
        for (auto value = begin; value != end; ++value) sum += *value;
        return begin == end ? kUnknown : sum / static_cast<double>(end - begin);
      };
      own.push_back(std::fmin(mean(of_rank.begin(), of_rank.begin() + half),
                              mean(of_rank.begin() + half, of_rank.end())));
    }
    std::vector<double> known;
    for (const double value : own) {
      if (value > 0) known.push_back(value);
    }
    const double median = Median(known);
    for (size_t rank = 0; rank < own.size(); ++rank) {
      called_.Set(rank, own[rank] > kDlroverThreshold * median, alarms);
    }
  }
};

class SlidingWindow : public PeerRule {
 public:
  explicit SlidingWindow(std::vector<int> group_of)
      : group_of_(std::move(group_of)), called_(group_of_.size()), windows_(group_of_.size()) {}

  void Step(const std::vector<double>& compute, std::vector<int>& alarms) override {
    std::map<int, std::vector<double>> groups;
    std::vector<double> own(compute.size(), kUnknown);
    for (size_t rank = 0; rank < compute.size(); ++rank) {
      Window& window = windows_[rank];
      if (compute[rank] > 0) window.values[window.count++ % kWindow] = compute[rank];
      if (window.count < kWindow) continue;
      std::array<double, kWindow> values = window.values;
      own[rank] = MedianOf(absl::MakeSpan(values));
      groups[group_of_[rank]].push_back(own[rank]);
    }
    std::map<int, double> medians;
    for (auto& [group, values] : groups) medians[group] = Median(values);
    for (size_t rank = 0; rank < own.size(); ++rank) {
      called_.Set(rank, own[rank] > kWindowThreshold * medians[group_of_[rank]], alarms);
    }
  }

 private:
  struct Window {
    std::array<double, kWindow> values;
    size_t count = 0;
  };
  const std::vector<int> group_of_;
  Called called_;
  std::vector<Window> windows_;
};

class Bocd : public PeerRule {
 public:
  Bocd(size_t ranks, double least_change) : series_(ranks, Of(least_change)) {}

  void Step(const std::vector<double>& compute, std::vector<int>& alarms) override {
    for (size_t rank = 0; rank < compute.size(); ++rank) {
      if (compute[rank] > 0 && series_[rank].Add(std::log(compute[rank]))) {
        alarms.push_back(static_cast<int>(rank));
      }
    }
  }

 private:
  static ChangePoints Of(double least_change) {
    ChangePoints::Options options;
    options.least_change = least_change;
    return ChangePoints(options);
  }

  std::vector<ChangePoints> series_;
};

}  // namespace

std::vector<NamedRule> MakePeerRules(const std::vector<DetectorRank>& ranks) {
  std::vector<int> stages;
  for (const DetectorRank& rank : ranks) stages.push_back(rank.peer_group);
  std::vector<NamedRule> rules;
  rules.push_back(
      {"NVRx relative", std::make_unique<NvrxRelative>(std::vector<int>(ranks.size()))});
  rules.push_back({"NVRx relative in stage", std::make_unique<NvrxRelative>(stages)});
  rules.push_back({"NVRx individual", std::make_unique<NvrxIndividual>(ranks.size())});
  rules.push_back({"DLRover 2x median", std::make_unique<Dlrover>(ranks.size())});
  rules.push_back({"sliding window 1.1x", std::make_unique<SlidingWindow>(stages)});
  rules.push_back({"BOCD", std::make_unique<Bocd>(ranks.size(), 0.0)});
  rules.push_back(
      {"BOCD + 10 %", std::make_unique<Bocd>(ranks.size(), std::log1p(kVerifiedChange))});
  return rules;
}

}  // namespace paceline::detect
