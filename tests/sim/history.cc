#include "tests/sim/history.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/sim/faults.h"
#include "tests/sim/node_requests.h"
#include "tests/sim/observer.h"
#include "tests/sim/requests.h"
#include "tests/sim/sim_controller.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/straggler_faults.h"
#include "tests/sim/straggler_judge.h"
#include "tests/sim/straggler_requests.h"
#include "tests/sim/training.h"
#include "tests/sim/world.h"

namespace paceline::sim {
namespace {

// A history of more events does not get on.
constexpr int64_t kMaxEvents = 500000;
// After all jobs have ended, for the rest to be tidied up.
constexpr Micros kTidyUp = 120 * kSecond;

}  // namespace

World::World(uint64_t seed, size_t kept_lines)
    : random(seed), settings(DrawSettings(random)), trace(&time, kept_lines) {
  network = std::make_unique<Network>(
      time, random.Fork(), settings.nodes,
      Network::Options{settings.control_delay, settings.repeated_message});
  observer = std::make_unique<Observer>(*this);
  straggler_judge = std::make_unique<StragglerJudge>(*this);
  controller = std::make_unique<SimController>(*this);
  training = std::make_unique<Training>(*this);
  for (int node = 0; node < settings.nodes; ++node) {
    nodes.push_back(std::make_unique<SimNode>(
        *this, node, static_cast<int>(random.Between(1, settings.max_slots))));
  }
}

World::~World() = default;

Outcome RunHistory(uint64_t seed, size_t kept_events) {
  World world(seed, kept_events);
  Faults faults(world);
  Requests requests(world);
  NodeRequests node_requests(world);
  world.controller->Start();
  for (const auto& node : world.nodes) node->StartDaemon();
  requests.Start();
  node_requests.Start();
  faults.Start();
  StragglerFaults straggler_faults(world);
  StragglerRequests straggler_requests(world);
  if (world.settings.stragglers) {
    straggler_faults.Start();
    straggler_requests.Start();
  }
  Micros end = world.settings.end;
  bool over = false;
  while (!world.trace.failure().has_value() && world.time.RunNext(end)) {
    if (world.time.events() > kMaxEvents) {
      world.trace.Fail("more than ", kMaxEvents, " events: something happens again and again");
    }
    if (over || world.time.now() < world.settings.quiet || !world.controller->is_up()) continue;
    over = world.observer->IsOver(world.controller->cluster());
    if (over) end = std::min(end, world.time.now() + kTidyUp);
  }
  if (!world.trace.failure().has_value()) world.observer->CheckEnd();
  Outcome outcome;
  outcome.failure = world.trace.failure().value_or("");
  outcome.events = world.trace.lines();
  outcome.coverage = world.coverage.counts();
  outcome.steps = world.time.events();
  outcome.seconds = static_cast<double>(world.time.now()) / kSecond;
  return outcome;
}

std::string Describe(uint64_t seed, size_t kept_events) {
  const Outcome outcome = RunHistory(seed, kept_events);
  std::string text;
  for (const std::string& line : outcome.events) absl::StrAppend(&text, line, "\n");
  absl::StrAppend(&text, "seed ", seed, ": ",
                  outcome.failure.empty() ? "all invariants hold" : outcome.failure, " (",
                  outcome.steps, " events, ", outcome.seconds, " s)\n");
  return text;
}

}  // namespace paceline::sim
