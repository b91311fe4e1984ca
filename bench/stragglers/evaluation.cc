#include "bench/stragglers/evaluation.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

#include "bench/stragglers/history.h"
#include "bench/stragglers/judge.h"
#include "bench/stragglers/peer_rules.h"
#include "controller/core/stragglers/detector/detector.h"

namespace paceline::detect {
namespace {

constexpr char kOurs[] = "Paceline";

struct Task {
  size_t row = 0;
  uint64_t seed = 0;
  bool with_peers = false;
};

// Feeds a peer's rule: for each typical step after the warm-up, the reports that come in time and
// make sense.
class PeerPlayer {
 public:
  PeerPlayer(const HistorySpec& spec, const History& history)
      : compute_(history.ranks().size()), rules_(MakePeerRules(history.ranks())) {
    for (size_t i = 0; i < rules_.size(); ++i) {
      judges_.emplace_back(spec, history.faults(), history.ranks());
    }
  }

  void Step(const std::vector<StepSample>& arrivals, bool restarted, int64_t step) {
    constexpr int kWarmUp = 20;
    constexpr double kHour = 3600;
    left_out_ = restarted || step == 0 ? kWarmUp : left_out_ - 1;
    if (left_out_ > 0) return;
    std::fill(compute_.begin(), compute_.end(), std::numeric_limits<double>::quiet_NaN());
    for (const StepSample& sample : arrivals) {
      if (sample.step != step) continue;
      if (sample.masked) return;
      const double compute = sample.forward_s + sample.backward_s;
      if (sample.forward_s < 0 || !(compute < kHour)) continue;
      compute_[static_cast<size_t>(sample.rank)] = compute;
    }
    for (size_t i = 0; i < rules_.size(); ++i) {
      alarms_.clear();
      rules_[i].rule->Step(compute_, alarms_);
      for (const int rank : alarms_) judges_[i].HearAlarm(rank, step);
    }
  }

  std::vector<RuleFigures> Sum(int64_t rank_steps) const {
    std::vector<RuleFigures> sums;
    for (size_t i = 0; i < rules_.size(); ++i) {
      sums.push_back({rules_[i].name, judges_[i].Sum(rank_steps)});
    }
    return sums;
  }

 private:
  std::vector<double> compute_;  // By rank.
  std::vector<NamedRule> rules_;
  std::vector<Judge> judges_;
  std::vector<int> alarms_;
  int left_out_ = 0;
};

std::vector<RuleFigures> Play(const HistorySpec& spec, uint64_t seed, bool with_peers) {
  History history(spec, seed);
  StragglerDetector detector({}, history.ranks());
  Judge judge(spec, history.faults(), history.ranks());
  std::vector<PeerPlayer> peers;
  if (with_peers) peers.emplace_back(spec, history);
  std::vector<StepSample> arrivals;
  std::vector<Verdict> verdicts;
  bool restarted = false;
  for (bool more = true; more;) {
    more = history.Next(arrivals, restarted);
    if (restarted) detector.Restart(history.ranks());
    for (const StepSample& sample : arrivals) detector.Add(sample, verdicts);
    if (!more) detector.Close(verdicts);
    for (const Verdict& verdict : verdicts) judge.Hear(verdict, history.step());
    verdicts.clear();
    if (!peers.empty() && more) peers[0].Step(arrivals, restarted, history.step());
  }
  const int64_t rank_steps = static_cast<int64_t>(spec.ranks) * spec.steps;
  std::vector<RuleFigures> sums = {{kOurs, judge.Sum(rank_steps)}};
  if (!peers.empty()) {
    for (RuleFigures& sum : peers[0].Sum(rank_steps)) sums.push_back(std::move(sum));
  }
  return sums;
}

std::vector<Task> Tasks(const std::vector<SweepRow>& rows, const EvaluationOptions& options) {
  std::vector<Task> tasks;
  for (size_t row = 0; row < rows.size(); ++row) {
    int history = 0;
    for (uint64_t seed = options.seeds.first; seed <= options.seeds.last; ++seed) {
      if ((seed - options.seeds.first) % static_cast<uint64_t>(rows[row].every) != 0) continue;
      for (int i = 0; i < rows[row].per_seed; ++i, ++history) {
        const bool with_peers = options.peers_every > 0 && history % options.peers_every == 0;
        tasks.push_back({row, HistorySeed(seed, i), with_peers});
      }
    }
  }
  return tasks;
}

// Rules keep their order; those that `sums` lacks are added.
void MergeInto(std::vector<RuleFigures>& sums, const std::vector<RuleFigures>& more) {
  for (size_t i = 0; i < more.size(); ++i) {
    if (i == sums.size()) sums.push_back({more[i].name, {}});
    sums[i].figures.Merge(more[i].figures);
  }
}

}  // namespace

std::vector<RowFigures> Evaluate(const std::vector<SweepRow>& rows,
                                 const EvaluationOptions& options) {
  std::vector<HistorySpec> specs;
  for (const SweepRow& row : rows) specs.push_back(ParseSpec(row.spec).value());
  const std::vector<Task> tasks = Tasks(rows, options);
  std::vector<std::vector<RowFigures>> parts(static_cast<size_t>(options.threads));
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (auto& part : parts) {
    for (const SweepRow& row : rows) part.push_back({row, {}});
    threads.emplace_back([&] {
      for (size_t i = next++; i < tasks.size(); i = next++) {
        const Task& task = tasks[i];
        MergeInto(part[task.row].rules, Play(specs[task.row], task.seed, task.with_peers));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 1; t < parts.size(); ++t) {
    for (size_t row = 0; row < rows.size(); ++row) {
      MergeInto(parts[0][row].rules, parts[t][row].rules);
    }
  }
  return std::move(parts[0]);
}

std::vector<RuleFigures> Total(const std::vector<RowFigures>& rows) {
  std::vector<RuleFigures> total;
  for (const RowFigures& row : rows) MergeInto(total, row.rules);
  return total;
}

}  // namespace paceline::detect
