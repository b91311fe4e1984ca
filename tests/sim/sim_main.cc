// Runs one history and prints all its events, or many, and prints how fast.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "tests/sim/history.h"

namespace {

constexpr size_t kEventsShown = 40;
constexpr size_t kAllEvents = 1000000;

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Simulated histories of a cluster.");
  uint64_t seed = 0;
  uint64_t first = 1;
  uint64_t count = 1000;
  uint64_t stride = 1;
  uint64_t failures_allowed = 1;
  bool trace = false;
  bool coverage = false;
  auto* one = app.add_option("--seed", seed, "Run this one.");
  app.add_option("--first", first, "Run those from this one on.");
  app.add_option("--seeds", count, "So many.");
  app.add_option("--stride", stride, "Only each so manieth: for several processes.");
  app.add_option("--failures", failures_allowed, "Stop after so many that fail.");
  app.add_flag("--trace", trace, "Show all events.");
  app.add_flag("--coverage", coverage, "Show how often what happened.");
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (one->count() > 0) {
    std::fputs(paceline::sim::Describe(seed, trace ? kAllEvents : kEventsShown).c_str(), stdout);
    return paceline::sim::RunHistory(seed, 0).failure.empty() ? 0 : 1;
  }
  const auto start = std::chrono::steady_clock::now();
  int64_t events = 0;
  double simulated = 0;
  std::map<std::string, int64_t> counts;
  uint64_t done = 0;
  uint64_t failures = 0;
  for (uint64_t s = first; s < first + count && failures < failures_allowed; s += stride) {
    const paceline::sim::Outcome outcome = paceline::sim::RunHistory(s, 0);
    events += outcome.steps;
    simulated += outcome.seconds;
    for (const auto& [what, times] : outcome.coverage) counts[what] += times;
    ++done;
    if (outcome.failure.empty()) continue;
    ++failures;
    if (failures_allowed == 1) {
      std::fputs(paceline::sim::Describe(s, kEventsShown).c_str(), stdout);
    } else {
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(s), outcome.failure.c_str());
    }
  }
  for (const auto& [what, times] : counts) {
    if (coverage) std::printf("%9lld  %s\n", static_cast<long long>(times), what.c_str());
  }
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%llu seeds, %llu failed; %.0f seeds/s, %.0f events/s, %.1f hours simulated\n",
              static_cast<unsigned long long>(done), static_cast<unsigned long long>(failures),
              static_cast<double>(done) / took, static_cast<double>(events) / took,
              simulated / 3600);
  return failures == 0 ? 0 : 1;
}
